"""What is decided on bytes is what is decided on records: filters, fates and the work of recovery, over the corpus."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import FormatError
from engine.format.entry.ln import LN
from engine.format.entry.rollback import RollbackStart
from engine.format.entry.txn_end import Prepare, TxnEnd
from engine.format.entry_types import ABORT, COMMIT, COMMON_LNS, TRANSACTIONAL, TXN_ENDS
from engine.format.fast import packed_ints
from engine.format.fast.fate_table import FateTable, lsn_of, stored_lsn
from engine.format.fast.filters import ByteFilter
from engine.format.fast.header import header_lengths
from engine.format.fast.loops import keeping
from engine.format.fast.packed_ints import PackedInts
from engine.format.fast.txns import note_transactions
from engine.format.header import EntryHeader, encode_entry
from engine.format.lsn import NULL_LSN
from engine.inspect.fates import COMMITTED, read_fates, read_history
from engine.inspect.selection import Selection, txn_of
from engine.log.entry import Damage, LogEntry, Stretch, entry_at
from engine.log.files import LogFiles, list_log_files
from engine.log.scan import scan_log
from engine.storage.disk import DiskStorage
from tests.support import corpus
from tests.support.logs.entry_bodies import entry_bodies
from tests.support.logs.golden_logs import LogMaker

VERSION = 17
_LARGEST = 120_000


def environments() -> list[Path]:
    """Small logs of the corpus, rollbacks and old versions among them."""
    sizes: dict[Path, int] = {}
    for path in corpus.path().rglob("*.jdb"):
        sizes[path.parent] = sizes.get(path.parent, 0) + path.stat().st_size
    return sorted(env for env, size in sizes.items() if size < _LARGEST)


def opened(env: Path) -> tuple[DiskStorage, LogFiles]:
    storage = DiskStorage(str(env))
    return storage, list_log_files(storage)


def records(env: Path) -> Iterator[tuple[LogEntry, object]]:
    """Every entry with its record; None for one that cannot be decoded."""
    storage, files = opened(env)
    for item in scan_log(storage, files).entries():
        if isinstance(item, LogEntry):
            try:
                yield item, item.record()
            except (FormatError, IndexError, ValueError):
                yield item, None


def test_fates_are_those_of_the_records() -> None:
    seen = 0
    for env in environments():
        found = read_fates(*opened(env))
        lns: dict[int, list[LogEntry]] = {}
        dbs: dict[int, set[int]] = {}
        ends: dict[int, tuple[int, int, int]] = {}
        for entry, record in records(env):
            if isinstance(record, LN) and record.txn_id is not None:
                lns.setdefault(record.txn_id, []).append(entry)
                dbs.setdefault(record.txn_id, set()).add(record.db_id)
            elif isinstance(record, (TxnEnd, Prepare)) and not entry.invisible:
                ends[record.id] = entry.lsn, record.time, entry.type_number
        known = {fate.txn_id: fate for fate in found.txns.values()}
        assert known.keys() >= lns.keys() | ends.keys()
        for txn_id, fate in known.items():
            own = lns.get(txn_id, [])
            assert (fate.lns, fate.bytes) == (len(own), sum(entry.total_bytes for entry in own))
            assert (fate.first_lsn, fate.last_lsn) == ((own[0].lsn, own[-1].lsn) if own else (NULL_LSN, NULL_LSN))
            assert fate.dbs == dbs.get(txn_id, set())
            end = ends.get(txn_id)
            assert (fate.end_lsn, fate.time_ms) == ((NULL_LSN, None) if end is None else end[:2])
            assert (fate.fate == COMMITTED) == (end is not None and end[2] == COMMIT)
        seen += len(known)
    assert seen > 1000


def test_the_history_of_a_key_is_that_of_the_records() -> None:
    rng = random.Random(2)
    compared = 0
    for env in environments()[::2]:
        storage, files = opened(env)
        lns = [(entry, record) for entry, record in records(env) if isinstance(record, LN)]
        if not lns:
            continue
        wanted = rng.choice(lns)[1]
        everything = read_fates(storage, files)
        found, fates = read_history(storage, files, (f"id:{wanted.db_id}",), wanted.key, rng.choice((1, 2)))
        expected = [(e, r) for e, r in lns if (r.db_id, r.key) == (wanted.db_id, wanted.key)]
        assert [pair for pair in found if pair[1].key == wanted.key] == expected
        assert (fates.damages, fates.entries, fates.rollbacks) == (
            everything.damages, everything.entries, everything.rollbacks,
        )  # fmt: skip
        for entry, record in found:
            assert fates.fate_of(entry, record) == everything.fate_of(entry, record)
            if record.txn_id is not None:
                one, whole = fates.txns.get(record.txn_id), everything.txns[record.txn_id]
                # Of a transaction that is open nothing was found.
                ended = ("open", NULL_LSN, None, False) if one is None else (one.fate, *one[4:6], one.after_end)
                assert ended == (whole.fate, *whole[4:6], whole.after_end)
        compared += len(expected)
    assert compared > 40


@given(
    st.lists(st.binary(min_size=1, max_size=3), min_size=1, max_size=5),
    st.sampled_from((b"a", b"\x00", b"ab", b"")),
    st.data(),
)
def test_lns_that_hold_a_key_are_found_by_its_bytes(bodies: list[bytes], key: bytes, data: st.DataObject) -> None:
    """Also where the key is everywhere, or lies before the first LN or across two entries."""
    bodies = [body * data.draw(st.sampled_from((1, 1, 2000))) for body in bodies]
    positions = [len(b"".join(bodies[:at])) for at in range(len(bodies))]
    sieve = ByteFilter(txns=None, dbs=None, keys=frozenset((key,)), key_prefixes=())
    found = sieve.holding(b"".join(bodies), positions[1:])
    assert found == sorted(set(found))
    assert {pos for pos, body in zip(positions[1:], bodies[1:], strict=True) if key in body} <= {*found}
    assert {*found} <= {*positions}


def selections(env: Path) -> list[Selection]:
    """One or more of every kind of criterion, on what the log holds."""
    rng = random.Random(9)
    found = list(records(env))
    lns = [record for _, record in found if isinstance(record, LN)]
    txns = [txn for entry, _ in found if (txn := txn_of(entry)) is not None]
    made = [Selection(replicated=True), Selection(invisible=True), Selection(types=frozenset((COMMIT, ABORT)))]
    if lns:
        ln = rng.choice(lns)
        dbs, keys = frozenset((ln.db_id,)), frozenset((ln.key,))
        made += [
            Selection(dbs=dbs), Selection(keys=keys), Selection(dbs=dbs, keys=keys),
            Selection(key_prefixes=(ln.key[:1], b"\xff\xff")), Selection(keys=keys, key_prefixes=(b"k",)),
        ]  # fmt: skip
    if txns:
        some = frozenset(rng.sample(txns, min(len(txns), 3)))
        made += [Selection(txns=some), Selection(txns=some, dbs=frozenset(ln.db_id for ln in lns[:1]) or some)]
    return made


def test_chosen_entries_are_those_that_match() -> None:
    chosen = 0
    for env in environments()[::5]:
        storage, files = opened(env)
        reader = scan_log(storage, files, marker=True)
        everything = list(reader.entries())
        for selection in selections(env):
            wanted = selection.matcher()
            expected = [item for item in everything if isinstance(item, Damage) or wanted(item)]
            assert list(selection.chosen(reader.stretches())) == expected, selection
            chosen += len(expected)
    assert chosen > 1000


def test_noted_transactions_are_those_of_the_records() -> None:
    noted = 0
    for env in environments():
        storage, files = opened(env)
        for item in scan_log(storage, files, marker=True).stretches():
            if not isinstance(item, Stretch):
                continue
            positions = item.positions(keeping(TRANSACTIONAL))
            active: dict[int, None] = {}
            lengths = header_lengths(item.version)
            at = note_transactions(item.data, positions, 0, lengths, item.version, active, {})
            expected: dict[int, None] = {}
            for pos in positions[:at]:
                record = item.entry_at(pos).record()
                if isinstance(record, LN):
                    assert record.txn_id is not None
                    expected[record.txn_id] = None
                else:
                    assert isinstance(record, TxnEnd)
                    expected.pop(record.id, None)
            assert list(active) == list(expected)
            noted += at
    assert noted > 1000


def test_bodies_that_do_not_fit_are_left_to_the_general_way() -> None:
    """A right checksum, and a body that is cut, too long, or claims too much."""
    rng = random.Random(4)
    wanted = (TXN_ENDS | COMMON_LNS) & TRANSACTIONAL
    good: dict[int, LogEntry] = {}
    for env in environments():
        good |= {e.type_number: e for e, _ in records(env) if e.version == VERSION and e.type_number in wanted}
        if good.keys() == wanted:
            break
    assert good.keys() == wanted
    refused = 0
    for number, entry in good.items():
        for _ in range(200):
            body = bytearray(entry.body)
            edit: Callable[[], object] = rng.choice(
                (
                    lambda body=body: body.append(rng.randrange(256)),
                    lambda body=body: body.pop(),
                    lambda body=body: body.__setitem__(rng.randrange(len(body)), rng.randrange(256)),
                )
            )
            edit()
            raw = encode_entry(EntryHeader(0, number, 0, 0, len(body), -1), bytes(body), VERSION)
            # What follows in the buffer must not be read as if it were part of the entry.
            buffer = raw + bytes(40)
            table = FateTable()
            taken = table.take(buffer, [0], 0, header_lengths(VERSION), VERSION, 0, False)
            shown = entry._replace(flags=0, item_size=len(body), vlsn=-1, body=bytes(body))
            try:
                record: object = shown.record()
            except (FormatError, IndexError, ValueError):
                assert taken == 0
                refused += 1
                continue
            if taken:
                assert isinstance(record, (LN, TxnEnd))
                assert table.ids.between(0, 9) == [record.txn_id if isinstance(record, LN) else record.id]
    assert refused > 100


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_rows_of_buffers_are_those_of_single_entries(data: st.DataObject) -> None:
    """Several buffers, with entries of any form and transactions that go on from one to the next."""
    by_buffer, by_entry = FateTable(), FateTable()
    lengths, numbers = header_lengths(VERSION), sorted((TXN_ENDS | COMMON_LNS) & TRANSACTIONAL)
    for buffer in range(data.draw(st.integers(1, 4))):
        log, after_end = LogMaker(VERSION), buffer > 2
        for number in data.draw(st.lists(st.sampled_from(numbers), min_size=1, max_size=12)):
            log.add(number, data.draw(entry_bodies(number, VERSION, st.integers(0, 9))))
        lsn, positions, at = buffer << 32, log.offsets[1:], 0
        while (at := by_buffer.take(log.data, positions, at, lengths, VERSION, lsn, after_end)) < len(positions):
            add_record(by_buffer, entry_at(log.data, positions[at], lsn, VERSION), after_end)
            at += 1
        for pos in positions:
            add_record(by_entry, entry_at(log.data, pos, lsn, VERSION), after_end)
    assert table_of(by_buffer) == table_of(by_entry)


def add_record(table: FateTable, entry: LogEntry, after_end: bool) -> None:
    try:
        record = entry.record()
    except FormatError:
        return
    if isinstance(record, LN):
        assert record.txn_id is not None
        table.add_ln(entry.lsn, record.txn_id, record.db_id, entry.total_bytes)
    else:
        assert isinstance(record, TxnEnd)
        table.add_end(entry.lsn, entry.type_number, record.id, record.time, after_end=after_end)


def table_of(table: FateTable) -> list[tuple[Any, ...]]:
    columns = [
        column.between(0, len(table.ids))
        for column in (table.ids, table.first, table.last, table.end, table.times, table.lns, table.sizes)
    ]
    dbs = [table.databases(db) for db in table.dbs.between(0, len(table.ids))]
    return list(zip(*columns, dbs, table.states, strict=True))


@pytest.mark.parametrize("ids", [[5, 6, 9, 7, 2_000_000, 1, 5, -3, -2, -1_000_000, 8], list(range(100, 0, -1))])
def test_rows_of_a_table(ids: list[int]) -> None:
    table = FateTable()
    rows = [table.known_row(txn_id) for txn_id in ids]
    order = list(dict.fromkeys(ids))
    assert table.ids.between(0, len(order)) == order
    assert rows == [order.index(txn_id) for txn_id in ids]
    assert table.row_of(77_777) == -1


def test_integers_that_are_packed_are_those_that_were_put(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_BITS", 4), ("_SEGMENT", 16), ("_MASK", 15)):
        monkeypatch.setattr(packed_ints, name, value)
    rng = random.Random(6)
    packed, plain = PackedInts("q"), list[int]()
    for _ in range(3000):
        if rng.random() < 0.3 or not plain:
            plain.append(rng.randrange(-(1 << 63), 1 << 63))
            packed.append(plain[-1])
        if rng.random() < 0.02:
            more = [rng.randrange(1 << 40) for _ in range(rng.randrange(60))]
            plain += more
            packed.extend(array("q", more).tobytes())
        at = rng.choice((rng.randrange(len(plain)), max(len(plain) - 40, 0)))
        assert packed.get(at) == plain[at]
        if rng.random() < 0.5:
            plain[at] = rng.randrange(100)
            packed.put(at, plain[at])
        first, end = sorted(rng.choices(range(len(plain) + 1), k=2))
        assert packed.between(first, end) == plain[first:end]
    assert len(packed) == len(plain) > 500


def test_lsns_of_the_highest_files_fit_a_column() -> None:
    for lsn in (0, 1 << 40, 0x7FFFFFFF << 32, 0x80000000 << 32 | 5, 0xFFFFFFFF << 32 | 7, NULL_LSN):
        table = FateTable()
        table.end.append(stored_lsn(lsn))
        assert lsn_of(table.end.get(0)) == lsn


def test_rollbacks_take_records_back() -> None:
    """A log with a rollback has transactions with records that it took back."""
    taken = 0
    for env in environments():
        if any(isinstance(record, RollbackStart) for _, record in records(env)):
            taken += sum(fate.rolled_back_lns for fate in read_fates(*opened(env)).txns.values())
    assert taken > 0
