"""Transactions out of entries: any interleaving, any memory; positions and names survive being written down."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import FormatError, RefusedError, StorageError
from engine.format.codecs import encode_body
from engine.format.entry.ln import LN
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import ABORT, COMMIT, INS_LN_TX
from engine.format.lsn import NULL_LSN
from engine.rep.changes.assembly import Assembler, Spool, TxnAssembly
from engine.rep.changes.database_names import NamedDatabase
from engine.rep.changes.position import CommitPoint, Position, Torn, position_of
from engine.rep.changes.state_file import StateFile
from engine.rep.wire.entries import WireEntry
from tests.support.groups.wire_seeds import try_changes

VERSION = 17
# Fields of an LN in the form for replication but transaction, key and data.
FIELDS = (0, 0, 0, -300, NULL_LSN)


def record(vlsn: int, txn: int, data: bytes) -> WireEntry:
    ln = LN._make(
        (*FIELDS, txn, NULL_LSN, None, None, -1, 0, 0, 0, 0, 0, 0, 0, -1, None, data, None, b"k%d" % vlsn, None)
    )
    return WireEntry(vlsn, INS_LN_TX, VERSION, encode_body(INS_LN_TX, VERSION, ln))


def end(vlsn: int, txn: int, kind: int, dtvlsn: int) -> WireEntry:
    return WireEntry(vlsn, kind, VERSION, encode_body(kind, VERSION, TxnEnd(NULL_LSN, txn, 1000 + vlsn, 1, dtvlsn, 0)))


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[int, str, bytes]]:
    """Transactions interleaved: id, what it does, data."""
    steps = []
    for _ in range(draw(st.integers(1, 60))):
        word = draw(st.sampled_from(("write", "write", "write", "commit", "abort")))
        steps.append((-10 - draw(st.integers(0, 4)), word, draw(st.binary(max_size=40))))
    return steps


@settings(max_examples=150)
@given(logs(), st.integers(0, 600), st.integers(1, 10), st.integers(0, 40))
def test_any_interleaving(steps: list[tuple[int, str, bytes]], memory: int, batch: int, done: int) -> None:
    entries: list[WireEntry] = []
    open_: dict[int, list[WireEntry]] = {}
    wanted = []
    number = dict.fromkeys(range(-14, -9), 0)
    for vlsn, (slot, word, data) in enumerate(steps, 1):
        txn = slot - 10 * number[slot]
        if word == "write":
            entries.append(record(vlsn, txn, data))
            open_.setdefault(txn, []).append(entries[-1])
            continue
        entries.append(end(vlsn, txn, COMMIT if word == "commit" else ABORT, vlsn))
        of_txn = open_.pop(txn, [])
        number[slot] += 1
        if word == "commit" and vlsn > done:
            restart = min((some[0].vlsn for some in open_.values()), default=vlsn + 1)
            wanted.append((vlsn, txn, restart, of_txn))
    assembler = Assembler(Torn(1), done, VERSION, memory)
    assembler.start(1)
    found: list[TxnAssembly] = []
    for at in range(0, len(entries), batch):
        found += assembler.take(entries[at : at + batch])
    got = [(one.point.vlsn, one.point.txn_id, one.point.restart, list(one)) for one in found]
    assert got == wanted
    assert assembler.durable == max((v for v, (_, word, _) in enumerate(steps, 1) if word != "write"), default=0)
    for one in found:
        assembler.release(one)
    assembler.close()


def test_a_transaction_of_any_length_comes_back_from_the_disk() -> None:
    assembler = Assembler(Torn(1), 0, VERSION, 1 << 16)
    assembler.start(1)
    entries = [record(vlsn, -20, bytes(vlsn % 5000)) for vlsn in range(1, 1500)]
    for entry in entries:
        assert assembler.take([entry]) == []
    (found,) = assembler.take([end(1500, -20, COMMIT, 1500)])
    assert list(found) == entries
    assert list(found) == entries
    assembler.release(found)
    assembler.close()


def test_a_temporary_file_that_has_lost_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool()
    place = spool.add([record(1, -1, b"a" * 100), record(2, -1, b"b" * 100)])
    assert [entry.vlsn for entry in spool.read(place)] == [1, 2]
    monkeypatch.setattr(os, "pread", lambda *_: b"")
    with pytest.raises(StorageError, match="lost bytes"):
        list(spool.read(place))
    spool.close()


def test_torn_until_newer_than_all_that_were_seen() -> None:
    """In the form for replication nothing tells; after a thousand ends newer ids do."""
    assembler = Assembler(Torn(500), 0, VERSION)
    assembler.start(500)
    found: list[TxnAssembly] = []
    for number in range(1002):
        vlsn = 500 + 2 * number
        found += assembler.take([record(vlsn, -2000 - number, b"x"), end(vlsn + 1, -2000 - number, COMMIT, vlsn)])
    assert [one.torn for one in found] == [True] * 1000 + [False] * 2
    late = assembler.take([record(2504, -1999, b"y"), end(2505, -1999, COMMIT, 2505)])
    assert [one.torn for one in late] == [True]


@pytest.mark.parametrize("wrong", [[record(2, -9, b"")], [record(1, -9, b""), record(1, -9, b"")]])
def test_vlsns_that_do_not_follow(wrong: list[WireEntry]) -> None:
    assembler = Assembler(Torn(1), 0, VERSION)
    assembler.start(1)
    with pytest.raises(FormatError, match="VLSN of the stream"):
        assembler.take(wrong)


POSITIONS = st.builds(
    lambda vlsns, names, undos, uuid: Position(
        "G", uuid, Torn(5, 6, -7), [CommitPoint(v, -v, 1, v - 1, v + 1) for v in sorted(vlsns)], names, undos
    ),
    st.sets(st.integers(1, 1 << 50), max_size=5),
    st.dictionaries(st.integers(-500, 500), st.builds(NamedDatabase, st.text(max_size=9), st.none() | st.booleans())),
    st.lists(st.tuples(st.integers(1, 99), st.dictionaries(st.integers(-9, 9), st.none()))),
    st.tuples(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 63), (1 << 63) - 1)),
)


@settings(max_examples=30)
@given(POSITIONS)
def test_positions_come_back(position: Position) -> None:
    assert vars(position_of(json.loads(json.dumps(position.as_json())))) == vars(position)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"version":2}', "[" * 100_000, "\xff", '{"version":1,"group":1,"uuid":[0,0],"torn":[1]}',
     '{"version":1,"group":"G","uuid":[0,0],"torn":[1],"commits":[[5,-1,1,1,5],[4,-1,1,1,5]],"names":[],"undos":[]}',
     '{"version":1,"group":"G","uuid":[0,0],"torn":[1],"commits":[[5,-1,1,1,9]],"names":[],"undos":[]}',
     '{"version":1,"group":"G","uuid":[0],"torn":[1],"commits":[],"names":[],"undos":[]}'],
)  # fmt: skip
def test_files_that_hold_no_position(tmp_path: Path, text: str) -> None:
    (tmp_path / "state").write_text(text, encoding="latin-1")
    with pytest.raises(RefusedError, match="does not hold the state"):
        StateFile.at(str(tmp_path / "state")).read()


def test_a_state_file_is_whole_or_the_old_one(tmp_path: Path) -> None:
    state = StateFile.at(str(tmp_path / "state"))
    assert state.read() is None
    position = Position("G", (1, 2), Torn(1), [CommitPoint(5, -6, 1, 4, 6)], {}, [])
    state.write(position)
    position.commits.append(CommitPoint(9, -7, 1, 5, 10))
    (tmp_path / "state.part").mkdir()
    with pytest.raises(Exception, match="state"):
        state.write(position)
    found = state.read()
    assert found is not None
    assert [point.vlsn for point in found[0].commits] == [5]


@settings(max_examples=300)
@given(st.binary(max_size=300))
def test_any_bytes_as_a_stream(data: bytes) -> None:
    assert try_changes(b"\x09" + data) >= 0
