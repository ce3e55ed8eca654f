"""The worked examples of je-behaviour.md 5.9: E-REC-1 row by row, E-REC-2 cut by cut (E-REC-3 is in tests/vlsn)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import Environment
from engine.db.transaction import Transaction
from engine.format.header import Provisional
from engine.storage.memory import MemoryStorage
from engine.tree.tree import find_bin
from tests.scenarios.by_hand import Hand
from tests.support.logs.entries import entries

OLD, NEW, NEWER = b"at 50, not embedded", b"at 150, not embedded", b"at 170, not embedded"


class Row:
    """One row of E-REC-1: ``K@50`` is committed and checkpointed, T1 is open."""

    def __init__(self) -> None:
        self.env = Environment(MemoryStorage(), EnvironmentConfig(create=True, checkpoint_bytes=0))
        self.db: Database = self.env.create_database("db", DatabaseOptions())
        self.db.put(b"K", OLD)
        self.lsns = [self.lsn()]
        self.env.checkpoint(force=True)
        self.txn: Transaction = self.env.begin()

    def lsn(self) -> int:
        """Where the slot of K leads."""
        return slot_lsn(self.env)

    def update(self, data: bytes) -> None:
        """T1 updates K."""
        self.db.put(b"K", data, self.txn)
        self.lsns.append(self.lsn())

    def crashed(self) -> Environment:
        """The environment after the crash, recovered."""
        self.env.sync()
        self.env.engine.crash()
        return Environment(self.env.engine.storage)


def slot_lsn(env: Environment) -> int:
    state = env.engine.catalog.by_name("db")
    assert state is not None
    node = find_bin(env.engine.ctx, state, b"K")
    assert node is not None
    return node.lsns[node.find(b"K")[0]]


def two_updates(row: Row) -> None:
    row.update(NEW)
    row.update(NEWER)


def and_commit(row: Row) -> None:
    two_updates(row)
    row.txn.commit()


def checkpoint_after(row: Row) -> None:
    two_updates(row)
    report = row.env.checkpoint(force=True)
    assert report is not None
    assert report.first_active_lsn == row.lsns[1]


def checkpoint_and_commit(row: Row) -> None:
    checkpoint_after(row)
    row.txn.commit()


def aborted(row: Row) -> None:
    row.update(NEW)
    row.txn.abort()


@pytest.mark.parametrize(
    ("log", "index", "data"),
    [
        (two_updates, 0, OLD),
        (and_commit, 2, NEWER),
        (checkpoint_after, 0, OLD),
        (checkpoint_and_commit, 2, NEWER),
        (aborted, 0, OLD),
    ],
)
def test_which_version_recovery_leaves(log: Callable[[Row], None], index: int, data: bytes) -> None:
    """E-REC-1, rows 1 to 4 and 7: the slot's LSN after recovery, and after another one."""
    row = Row()
    log(row)
    env = row.crashed()
    assert slot_lsn(env) == row.lsns[index]
    assert env.open_database("db").get(b"K") == data
    env.engine.crash()
    with Environment(env.engine.storage) as again:
        assert slot_lsn(again) == row.lsns[index]


def test_a_committed_deletion_is_redone() -> None:
    """E-REC-1, row 5."""
    row = Row()
    row.db.delete(b"K", row.txn)
    row.txn.commit()
    with row.crashed() as env:
        assert list(env.open_database("db").items()) == []


def test_an_insertion_whose_bin_was_logged_is_undone() -> None:
    """E-REC-1, row 6: KD with LSN NULL, hence no record."""
    row = Row()
    row.db.put(b"K2", NEW, row.txn)
    row.env.checkpoint(force=True)
    with row.crashed() as env:
        assert dict(env.open_database("db").items()) == {b"K": OLD}


def test_a_minimized_checkpoint_cut_at_every_position() -> None:
    """E-REC-2 (v): a five-level tree; middle nodes are replayed, BINs are not, and every record is readable."""
    hand = Hand()
    assert len(hand.path(b"0000")) >= 5
    expected = dict(hand.db.items())
    with hand.env.begin() as txn:
        for number in range(0, 200, 7):
            hand.db.put(b"%04d" % number, b"changed" * 4, txn)
            expected[b"%04d" % number] = b"changed" * 4
    after = hand.writer.last_lsn
    hand.env.checkpoint(force=True, minimize=True)
    written = list(entries(hand.env, after))
    flags = {entry.provisional for entry in written if entry.type_name in ("IN", "BIN", "NewBINDelta")}
    assert flags == set(Provisional)
    data = hand.files()["00000000.jdb"]
    for entry in written[:-1]:
        end = (entry.lsn & 0xFFFFFFFF) + entry.total_bytes
        found = hand.recovered(b"0100", {"00000000.jdb": data[:end]})
        assert found.records == expected, hex(entry.lsn)
