"""The chain of one transaction's LNs: the version to which each is reverted when the end of the chain is rolled back.

Rules R-RB-40 to 44. An abort returns a record to its version before the transaction, which each LN entry records. A
rollback to a matchpoint returns it to the version *at the matchpoint*, which may belong to the same transaction. No
entry records that version, so the chain is walked backwards from the transaction's last LN by last-LSN:

* An entry after the matchpoint will be undone. Unless an earlier entry of the transaction wrote the same record, it
  reverts to the version before the transaction, from its own abort information.
* If an earlier entry wrote the record, the later entry reverts to the earlier entry instead.
* Entries at or before the matchpoint stay, write-locked.

Example (E-RB-4): A@10 and B@20 are committed, then one transaction writes 31 UPD A, 32 DEL A, 33 UPD B, 34 INS A, 35
INS C. With the matchpoint below 31 the revert information is, in the order of its use: 35 -> NULL (no such record), 34
-> 32 pending deleted, 33 -> 20, 32 -> 31, 31 -> 10. With the matchpoint at 32 the last two stay.

A version that was a deletion becomes *pending* deleted, not known deleted: a later step may restore the record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import cmp_to_key
from typing import Any, NamedTuple, Protocol

from engine.errors import DamageError, NotFoundError
from engine.format.entry.ln import LN, TOMBSTONE
from engine.format.lsn import NULL_LSN, format_lsn
from engine.format.vlsn import NULL_VLSN
from engine.tree.apply import RecordVersion, version_before
from engine.tree.bin_node import UNTIMED, times_from


class ChainEntry(NamedTuple):
    """An LN of the chain: its body, and the VLSN of its header."""

    ln: LN
    vlsn: int


class ChainDatabase(Protocol):
    """The properties of a database that the chain needs."""

    @property
    def comparator(self) -> Callable[[bytes, bytes], int] | None:
        """Order of the stored keys, if keys with different bytes can be the same record; None: compare the bytes."""

    @property
    def key_updates(self) -> bool:
        """Whether an update may change a key's bytes."""


class ChainLog(Protocol):
    """Gives entries and databases to the chain."""

    def read_ln(self, lsn: int) -> ChainEntry:
        """The LN at an LSN, invisible or not.

        Raises:
            NotFoundError: the file of the LSN is missing.
            DamageError: there is no LN at the LSN.
        """

    def database(self, db_id: int) -> ChainDatabase | None:
        """A database, or None if it has been removed since."""


class TxnChain:
    """The part of a transaction that is rolled back, and the part that remains.

    Arguments:
        last_lsn: the transaction's last LN.
        txn_id: the transaction.
        matchpoint_lsn: entries after it are rolled back.
        log: entries and databases.

    Attributes:
        remaining_lsns: LNs at or before the matchpoint, latest first; they remain locked.
        last_valid_vlsn: VLSN of the latest of these LNs that has a VLSN, else NULL_VLSN.

    Raises:
        DamageError: an entry is missing, belongs to another transaction, or the chain does not lead backwards.
    """

    __slots__ = ("_order", "_reverts", "last_valid_vlsn", "remaining_lsns", "txn_id")

    def __init__(self, last_lsn: int, txn_id: int, matchpoint_lsn: int, log: ChainLog) -> None:
        self.txn_id = txn_id
        self.remaining_lsns: list[int] = []
        self.last_valid_vlsn = NULL_VLSN
        self._reverts: dict[int, RecordVersion] = {}
        waiting = _PendingRecords()
        lsn = last_lsn
        while lsn != NULL_LSN:
            entry = self._read(lsn, log)
            database = log.database(entry.ln.db_id)
            # In a removed database there is nothing to undo, but the chain continues (R-RB-31).
            if database is not None:
                self._add(lsn, entry, database, matchpoint_lsn, waiting)
            # A chain that does not lead backwards would never end.
            if entry.ln.last_lsn >= lsn:
                raise self._damaged(lsn, f"it names {format_lsn(entry.ln.last_lsn)} as the entry before it")
            lsn = entry.ln.last_lsn
        self._order = deque(sorted(self._reverts, reverse=True))

    def __len__(self) -> int:
        """The number of LNs still to be undone."""
        return len(self._order)

    def next_lsn(self) -> int:
        """The LN to undo next: the latest of the remaining LNs; NULL_LSN if no LN remains."""
        return self._order[0] if self._order else NULL_LSN

    def take(self, lsn: int) -> RecordVersion:
        """The version that undoing the LN puts into the slot. Each LN is taken once, latest first (R-RB-42).

        Raises:
            DamageError: the LN is not the next one of the chain.
        """
        if self.next_lsn() != lsn:
            raise self._damaged(lsn, f"the chain expects {format_lsn(self.next_lsn())} to be rolled back before it")
        return self._reverts.pop(self._order.popleft())

    def _read(self, lsn: int, log: ChainLog) -> ChainEntry:
        try:
            entry = log.read_ln(lsn)
        except (DamageError, NotFoundError) as error:
            raise self._damaged(lsn, f"it cannot be read: {error}") from error
        # A damaged link may lead to an intact LN of another transaction.
        if entry.ln.txn_id != self.txn_id:
            raise self._damaged(lsn, f"it belongs to transaction {entry.ln.txn_id}")
        return entry

    def _add(
        self, lsn: int, entry: ChainEntry, database: ChainDatabase, matchpoint_lsn: int, waiting: _PendingRecords
    ) -> None:
        ln = entry.ln
        record = waiting.name(ln, database)
        # A later LN of the same record reverts to this LN, not to the version before the transaction (R-RB-41).
        later = waiting.latest.pop(record, None)
        if later is not None:
            self._reverts[later] = RecordVersion(
                lsn=lsn,
                # A deletion is not *known* deleted, since a later step may restore the record (R-RB-43).
                pending_deleted=ln.data is None,
                key=ln.key if database.key_updates else None,
                data=ln.data if ln.embedded else None,
                vlsn=entry.vlsn if ln.embedded else NULL_VLSN,
                expiration=ln.expiration,
                times=times_from(ln.modification_time, ln.creation_time) if ln.embedded else UNTIMED,
                tombstone=bool(ln.flags2 & TOMBSTONE),
            )
        if lsn > matchpoint_lsn:
            # This version is preliminary: an earlier LN of the record replaces it.
            self._reverts[lsn] = version_before(ln, lsn)
            waiting.latest[record] = lsn
            return
        self.remaining_lsns.append(lsn)
        if self.last_valid_vlsn == NULL_VLSN:
            self.last_valid_vlsn = entry.vlsn

    def _damaged(self, lsn: int, found: str) -> DamageError:
        return DamageError(
            f"broken chain of transaction {self.txn_id}",
            lsn=format_lsn(lsn),
            found=found,
            consequence="LOG_INTEGRITY: its rollback cannot be completed",
            hint="restore the missing files, or restore this environment from another node or a backup",
        )


class _PendingRecords:
    """The LNs of the walk for which an earlier version of their record may still be found.

    Records are identified by database and key. Under a comparator one key stands for all keys that compare equal to it:
    the keys found so far are kept sorted, and searched by bisection.
    """

    __slots__ = ("_keys", "latest")

    def __init__(self) -> None:
        self.latest: dict[tuple[int, bytes], int] = {}
        self._keys: dict[int, list[bytes]] = {}

    def name(self, ln: LN, database: ChainDatabase) -> tuple[int, bytes]:
        """The identifier of the record that an LN wrote."""
        compare = database.comparator
        if compare is None:
            return ln.db_id, ln.key
        met = self._keys.setdefault(ln.db_id, [])
        order: Callable[[bytes], Any] = cmp_to_key(compare)
        low, high = 0, len(met)
        while low < high:
            middle = (low + high) // 2
            if order(met[middle]) < order(ln.key):
                low = middle + 1
            else:
                high = middle
        if low == len(met) or compare(met[low], ln.key) != 0:
            met.insert(low, ln.key)
        return ln.db_id, met[low]
