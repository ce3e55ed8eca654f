"""Rows of transactions by C are those of the twin: golden logs, generated entries, any bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.format.codecs import encode_body
from engine.format.entry_types import ABORT, COMMIT, COMMON_LNS, LNS, TRANSACTIONAL
from engine.format.fast.fate_table import stored_lsn
from engine.format.fast.header import header_lengths
from engine.format.fast.loops import keeping
from engine.format.fast.txn_rows import TxnRows, txn_rows_plain
from engine.format.versions import LN_FLAGS_FIRST, LN_KEY_FIRST
from engine.log.entry import Stretch
from engine.log.files import list_log_files
from engine.log.scan import scan_log
from engine.storage.disk import DiskStorage
from tests.support import corpus
from tests.support.logs.entry_bodies import entry_bodies
from tests.support.logs.golden_logs import LogMaker
from tests.support.native_core import native_core

if TYPE_CHECKING:
    from engine.native import core
else:
    core = native_core()

SEEN = (COMMIT, ABORT, *sorted(COMMON_LNS & TRANSACTIONAL))
# LSNs from this file on are negative in a column.
HIGH = stored_lsn(0x80000005 << 32)


def both(data: bytes, positions: list[int], at: int, version: int, lsn: int) -> TxnRows:
    arguments = data, positions, at, header_lengths(version), version, lsn
    rows = txn_rows_plain(*arguments)
    assert core.txn_rows(*arguments) == rows
    return rows


def test_golden_logs_have_the_same_rows() -> None:
    rows = others = 0
    for env in sorted({path.parent for path in corpus.path().rglob("*.jdb")}):
        storage = DiskStorage(str(env))
        for item in scan_log(storage, list_log_files(storage)).stretches():
            if isinstance(item, Stretch) and LN_FLAGS_FIRST <= item.version < LN_KEY_FIRST:
                positions, at = item.positions(keeping(LNS | {COMMIT, ABORT})), 0
                while at < len(positions):
                    found = both(item.data, positions, at, item.version, item.lsn)
                    rows, others = rows + len(found.states), others + len(found.others)
                    at = found.reached + 1
    assert rows > 1000
    assert others


@settings(max_examples=200, deadline=None)
@given(st.data(), st.integers(LN_FLAGS_FIRST, LN_KEY_FIRST - 1))
def test_any_entries_have_the_same_rows(data: st.DataObject, version: int) -> None:
    log = LogMaker(version)
    for _ in range(data.draw(st.integers(1, 12))):
        number = data.draw(st.sampled_from(SEEN))
        body = data.draw(entry_bodies(number, version, st.integers(-3500, 3500)))
        log.add(number, body, flags=data.draw(st.sampled_from((0, 0x80, 0x28))), vlsn=9)
    changed = bytearray(log.data)
    for at, byte in data.draw(st.lists(st.tuples(st.integers(40, len(changed) - 1), st.integers(0, 255)), max_size=2)):
        changed[at] = byte
    cut = bytes(changed[: data.draw(st.sampled_from((len(changed), len(changed), len(changed) - 1, 60)))])
    positions = [*log.offsets[1:], *data.draw(st.lists(st.integers(-5, len(changed) + 5), max_size=1))]
    lsn = data.draw(st.sampled_from((0, 7 << 32, HIGH)))
    for at in range(len(positions) + 1):
        both(cut, positions, at, version, lsn)


def test_many_transactions_have_the_same_rows() -> None:
    """More than the first table has places for, with ids that repeat, descend and lie far apart."""
    ids = [*range(1000), *range(-1000, 0), *(at << 33 for at in range(1, 1000)), *range(1000)]
    log = LogMaker(17)
    for txn_id in ids:
        log.add(COMMIT, encode_body(COMMIT, 17, (-1, txn_id, txn_id % 7, 0, 0, 0)))
    rows = both(log.data, log.offsets[1:], 0, 17, 0)
    assert (rows.reached, len(rows.states), rows.others) == (3999, 2999, b"")


def test_what_breaks_the_contract_is_refused() -> None:
    lengths = header_lengths(17)
    good: list[Any] = [b"", [], 0, lengths, 17, 0]
    assert core.txn_rows(*good) == txn_rows_plain(*good)
    assert core.txn_rows(b"", [], 0, lengths, LN_KEY_FIRST, 0) is None
    wrong: list[tuple[int, Any, type[Exception]]] = [
        (0, "text", TypeError), (1, (), TypeError), (2, -1, ValueError), (3, lengths[:5], ValueError),
        (1, ["a"], TypeError), (1, [1 << 70], OverflowError),
    ]  # fmt: skip
    for at, value, error in wrong:
        with pytest.raises(error):
            core.txn_rows(*[value if place == at else one for place, one in enumerate(good)])
