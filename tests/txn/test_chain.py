"""Chains of transactions: E-RB-4, R-RB-40 to 44, T-6 and T-7."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.errors import DamageError, NotFoundError
from engine.format.bytecursor import join_two_part_key
from engine.format.entry.ln import EMBEDDED
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.tree.apply import RecordVersion
from engine.txn.chain import ChainDatabase, ChainEntry, TxnChain
from tests.support.logs.loglang import make_ln

TXN = -20


class Database:
    """A database for chains."""

    def __init__(self, comparator: Callable[[bytes, bytes], int] | None = None, *, key_updates: bool = False) -> None:
        self.comparator = comparator
        self.key_updates = key_updates


class Log:
    """Entries by LSN; unknown LSNs are in a missing file."""

    def __init__(self, entries: dict[int, ChainEntry], databases: dict[int, Database] | None = None) -> None:
        self.entries = entries
        self.databases: dict[int, Database] = {5: Database()} if databases is None else databases

    def read_ln(self, lsn: int) -> ChainEntry:
        if lsn not in self.entries:
            raise NotFoundError("no such file", file="00000000.jdb")
        return self.entries[lsn]

    def database(self, db_id: int) -> ChainDatabase | None:
        return self.databases.get(db_id)


def example() -> Log:
    """E-RB-4: A@10 and B@20 before; 31 UPD A, 32 DEL A, 33 UPD B, 34 INS A, 35 INS C."""
    rows = [
        (31, NULL_LSN, b"A", 10, b"a1"),
        (32, 31, b"A", 10, None),
        (33, 32, b"B", 20, b"b1"),
        (34, 33, b"A", 10, b"a2"),
        (35, 34, b"C", NULL_LSN, b"c1"),
    ]
    return Log(
        {lsn: ChainEntry(make_ln(TXN, last, key, abort, data), lsn + 100) for lsn, last, key, abort, data in rows}
    )


def reverts(chain: TxnChain) -> list[tuple[int, int, bool, bool]]:
    found = []
    while chain:
        undone = chain.next_lsn()
        before = chain.take(undone)
        found.append((undone, before.lsn, before.known_deleted, before.pending_deleted))
    return found


def test_whole_chain() -> None:
    chain = TxnChain(35, TXN, 30, example())
    assert reverts(chain) == [
        (35, NULL_LSN, False, False),
        (34, 32, False, True),
        (33, 20, False, False),
        (32, 31, False, False),
        (31, 10, False, False),
    ]
    assert chain.remaining_lsns == []
    assert chain.last_valid_vlsn == NULL_VLSN
    assert chain.next_lsn() == NULL_LSN


def test_chain_with_the_matchpoint_inside() -> None:
    chain = TxnChain(35, TXN, 32, example())
    assert reverts(chain) == [(35, NULL_LSN, False, False), (34, 32, False, True), (33, 20, False, False)]
    assert chain.remaining_lsns == [32, 31]
    assert chain.last_valid_vlsn == 132


def test_every_matchpoint_directly_and_step_by_step() -> None:
    """T-6: rolling back to each matchpoint in turn gives the same as going there directly."""
    for matchpoint in range(30, 36):
        direct = TxnChain(35, TXN, matchpoint, example())
        steps: list[tuple[int, int, bool, bool]] = []
        last = 35
        for stop in range(34, matchpoint - 1, -1):
            chain = TxnChain(last, TXN, stop, example())
            steps += reverts(chain)
            last = chain.remaining_lsns[0] if chain.remaining_lsns else NULL_LSN
            if last == NULL_LSN:
                break
        assert reverts(direct) == steps
        assert direct.remaining_lsns == [lsn for lsn in (35, 34, 33, 32, 31) if lsn <= matchpoint]


def test_first_remaining_entry_with_a_vlsn_counts() -> None:
    log = example()
    log.entries[32] = log.entries[32]._replace(vlsn=NULL_VLSN)
    assert TxnChain(35, TXN, 32, log).last_valid_vlsn == 131


def test_abort_information_of_the_first_write() -> None:
    ln = make_ln(
        TXN, NULL_LSN, b"A", 10, abort_known_deleted=True, abort_data=b"old", abort_vlsn=9, abort_key=b"a",
        abort_expiration=77,
    )  # fmt: skip
    assert TxnChain(31, TXN, 30, Log({31: ChainEntry(ln, 40)})).take(31) == RecordVersion(
        lsn=10, key=b"a", data=b"old", expiration=77, vlsn=9, known_deleted=True
    )


@pytest.mark.parametrize("key_updates", [False, True])
@pytest.mark.parametrize("embedded", [False, True])
def test_intermediate_version(key_updates: bool, embedded: bool) -> None:
    """R-RB-41 (a): key only with key updates, data and VLSN only when embedded, the expiration always."""
    flags = EMBEDDED if embedded else 0
    log = Log(
        {
            31: ChainEntry(make_ln(TXN, NULL_LSN, b"A", 10, b"one", flags=flags, expiration=500), 61),
            32: ChainEntry(make_ln(TXN, 31, b"A", 10, b"two", flags=flags, expiration=600), 62),
        },
        {5: Database(key_updates=key_updates)},
    )
    assert TxnChain(32, TXN, 30, log).take(32) == RecordVersion(
        lsn=31,
        key=b"A" if key_updates else None,
        data=b"one" if embedded else None,
        expiration=500,
        vlsn=61 if embedded else NULL_VLSN,
    )


def test_records_are_told_apart_by_the_comparator() -> None:
    """T-7 testCustomBtreeComparator: keys that compare equal are one record."""

    def fold(left: bytes, right: bytes) -> int:
        a, b = left.lower(), right.lower()
        return (a > b) - (a < b)

    keys = [b"m", b"C", b"x", b"c", b"M", b"X", b"a"]
    entries = {
        30 + at: ChainEntry(make_ln(TXN, 29 + at if at else NULL_LSN, key, 3), NULL_VLSN) for at, key in enumerate(keys)
    }
    plain = TxnChain(36, TXN, 29, Log(entries))
    assert [lsn for _, lsn, _, _ in reverts(plain)] == [3] * 7
    folded = TxnChain(36, TXN, 29, Log(entries, {5: Database(fold, key_updates=True)}))
    assert [(undone, lsn) for undone, lsn, _, _ in reverts(folded)] == [
        (36, 3), (35, 32), (34, 30), (33, 31), (32, 3), (31, 3), (30, 3),
    ]  # fmt: skip


def test_duplicates_and_databases_are_told_apart() -> None:
    """T-7 testDups: key and data name the record; the same key in another database is another record."""
    first, second = join_two_part_key(b"k", b"1"), join_two_part_key(b"k", b"2")
    entries = {
        31: ChainEntry(make_ln(TXN, NULL_LSN, first, 3), NULL_VLSN),
        32: ChainEntry(make_ln(TXN, 31, second, 4), NULL_VLSN),
        33: ChainEntry(make_ln(TXN, 32, first, 5, db_id=6), NULL_VLSN),
        34: ChainEntry(make_ln(TXN, 33, first, 3), NULL_VLSN),
    }
    chain = TxnChain(34, TXN, 30, Log(entries, {5: Database(), 6: Database()}))
    assert [(undone, lsn) for undone, lsn, _, _ in reverts(chain)] == [(34, 31), (33, 5), (32, 4), (31, 3)]


def test_removed_database_leaves_no_trace() -> None:
    """R-RB-31, T-9: its LNs are skipped, those of other databases are not."""
    log = example()
    ln = log.entries[33].ln
    log.entries[33] = ChainEntry(ln._replace(db_id=6), 133)
    assert [lsn for lsn, *_ in reverts(TxnChain(35, TXN, 30, log))] == [35, 34, 32, 31]


def test_missing_file() -> None:
    """R-RB-44."""
    log = example()
    del log.entries[32]
    with pytest.raises(DamageError, match="broken chain of transaction -20 at 0x0/0x20") as caught:
        TxnChain(35, TXN, 30, log)
    assert "no such file" in str(caught.value)
    assert "LOG_INTEGRITY" in str(caught.value)


@pytest.mark.parametrize("last", [33, 34, 35, 1000])
def test_chain_that_does_not_go_backwards(last: int) -> None:
    """A damaged chain is refused, never walked for ever."""
    log = example()
    log.entries[33] = ChainEntry(log.entries[33].ln._replace(last_lsn=last), 133)
    with pytest.raises(DamageError, match="names 0x0/"):
        TxnChain(35, TXN, 30, log)


def test_entry_of_another_transaction() -> None:
    log = example()
    log.entries[33] = ChainEntry(log.entries[33].ln._replace(txn_id=-21), 133)
    with pytest.raises(DamageError, match="belongs to transaction -21"):
        TxnChain(35, TXN, 30, log)


def test_taken_out_of_order() -> None:
    """R-RB-42."""
    chain = TxnChain(35, TXN, 30, example())
    with pytest.raises(DamageError, match="expects 0x0/0x23 to be rolled back before it"):
        chain.take(34)
    assert chain.take(35).lsn == NULL_LSN
    with pytest.raises(DamageError):
        chain.take(35)
