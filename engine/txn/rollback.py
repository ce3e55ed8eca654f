"""Rolling open transactions back to a matchpoint: code shared by recovery and running replicas (R-RB-30 to R-RB-36).

* ``TxnChain`` (``engine.txn.chain``) gives the version to which each LN after the matchpoint returns; ``ChainReader``
  reads the entries for it.
* Entries that were rolled back become invisible in the files, and so do the Matchpoints among them. JE leaves
  Matchpoints visible, and then the same VLSN is found twice. No reader needs them, and all readers skip invisible
  entries.
* A partially undone transaction keeps its locks on the remaining records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from engine.errors import DamageError
from engine.format.entry.ln import LN
from engine.format.entry_types import MATCHPOINT
from engine.format.header import FLAGS_AT, INVISIBLE, is_invisible
from engine.format.lsn import NULL_LSN, file_of, format_lsn, offset_of
from engine.log.access import LogAccess
from engine.log.passes import LogRange, forward
from engine.tree.apply import version_before
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.txn.chain import ChainEntry
from engine.txn.lock_types import LockType
from engine.txn.locks import LockTable
from engine.txn.txn import Txn
from engine.txn.undo import DatabaseFinder

_MATCHPOINTS: Final = frozenset((MATCHPOINT,))


class ChainDb:
    """Adapts a database for transaction chains."""

    __slots__ = ("_db",)

    def __init__(self, db: DatabaseState) -> None:
        self._db = db

    @property
    def comparator(self) -> Callable[[bytes, bytes], int] | None:
        """The comparison of keys; None if keys that differ in bytes are always different records."""
        if self._db.order.comparator is None:
            return None
        wrap = self._db.order.wrap

        def compare(a: bytes, b: bytes) -> int:
            first, second = wrap(a), wrap(b)
            return 0 if first == second else -1 if first < second else 1

        return compare

    @property
    def key_updates(self) -> bool:
        """Whether keys with different bytes can be the same record, which requires a comparator."""
        return self._db.order.comparator is not None


class ChainReader:
    """Reads entries and databases for transaction chains."""

    __slots__ = ("_ctx", "_find")

    def __init__(self, ctx: TreeContext, find: DatabaseFinder) -> None:
        self._ctx = ctx
        self._find = find

    def read_ln(self, lsn: int) -> ChainEntry:
        """The LN at an LSN, invisible or not."""
        entry = self._ctx.access.read(lsn, allow_invisible=True)
        record = entry.record()
        if not isinstance(record, LN):
            raise DamageError("a transaction chain leads to no LN", lsn=format_lsn(lsn), found=entry.type_name)
        return ChainEntry(record, entry.vlsn)

    def database(self, db_id: int) -> ChainDb | None:
        """A database, or None if it is gone."""
        db = self._find.by_id(db_id)
        return None if db is None else ChainDb(db)


def visible_matchpoints(access: LogAccess, matchpoint_lsn: int, end_lsn: int) -> list[int]:
    """LSNs of the Matchpoints in ``(matchpoint_lsn, end_lsn)`` that are not invisible yet.

    Arguments:
        matchpoint_lsn: target of the rollback; its file may have been deleted since.
    """
    # The matchpoint's file may be gone; then the log is read from its start.
    there = any(file.number == file_of(matchpoint_lsn) for file in access.files())
    extent = LogRange(matchpoint_lsn if there else NULL_LSN, end_lsn)
    return [
        raw.lsn
        # Gaps are files that the cleaner deleted; they contained nothing to roll back.
        for raw in forward(access, extent, _MATCHPOINTS, gaps=True)
        if raw.lsn > matchpoint_lsn and not is_invisible(raw.flags, raw.version)
    ]


def set_invisible(access: LogAccess, lsns: list[int]) -> None:
    """Mark entries of rollback periods invisible, durably (R-LOG-46, R-RB-32); their checksums do not cover the bit."""
    by_file: dict[int, list[int]] = {}
    for lsn in sorted(lsns):
        by_file.setdefault(file_of(lsn), []).append(offset_of(lsn))
    paths = {file.number: file.path for file in access.files()}
    for number, offsets in by_file.items():
        # Each file once, in order: one fsync for all of its entries (R-LOG-46).
        file = access.storage.open_rw(paths[number])
        for offset in offsets:
            flags = file.read(offset + FLAGS_AT, 1)[0]
            # The bit is set in place: it is masked out before the checksum is computed (R-LOG-41).
            file.write(offset + FLAGS_AT, bytes((flags | INVISIBLE,)))
        file.sync()
        file.close()


def relock(locks: LockTable, txn: Txn, db: DatabaseState, record: LN, lsn: int) -> None:
    """Give an open transaction the lock on one of its LNs, and restore the version before it in ``writes``
    (R-REC-51).
    """
    # There are no other lockers yet, so the lock is granted at once (R-REC-51).
    locks.lock(lsn, txn, LockType.WRITE, wait=False)
    txn.locks[lsn] = None
    txn.writes[lsn] = (db, version_before(record, lsn)._replace(size=record.prior_size))
    if record.data is None:
        txn.deleted.append((db, db.order.wrap(record.key)))
