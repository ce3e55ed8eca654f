"""Errors of locking: all of them refusals (exit code 3) that the application may answer by trying its transaction
again.

Each leaves its transaction abort-only: the lock table tells the locker before it raises. The fields of the error tree
carry the text; ``locker_id`` and ``lock_lsn`` are there for programs.
"""

from __future__ import annotations

from typing import ClassVar

from engine.errors import RefusedError
from engine.format.lsn import format_lsn


class LockConflictError(RefusedError):
    """A record lock could not be had or kept.

    Arguments:
        what: one clause, as for every error.
        locker_id: id of the transaction (or other locker) that fails.
        lock_lsn: the LSN that it wanted or held.
        found: who is in the way.
        hint: what to do.
    """

    kind: ClassVar[str] = "lock_conflict"

    def __init__(self, what: str, *, locker_id: int, lock_lsn: int, found: str, hint: str) -> None:
        super().__init__(
            what,
            lsn=format_lsn(lock_lsn),
            found=found,
            consequence=f"transaction {locker_id} can only be aborted",
            hint=hint,
        )
        self.locker_id = locker_id
        self.lock_lsn = lock_lsn


class LockTimeoutError(LockConflictError):
    """The lock did not come within the lock timeout (``je.lock.timeout``, R-TXN-24)."""

    kind = "lock_timeout"


class TransactionTimeoutError(LockConflictError):
    """The transaction was older than its own timeout while it waited (``je.txn.timeout``, R-TXN-24)."""

    kind = "transaction_timeout"


class DeadlockError(LockConflictError):
    """The transaction was chosen to give way in a deadlock (R-TXN-25)."""

    kind = "deadlock"


class LockPreemptedError(LockConflictError):
    """A replayed transaction of the replication stream took the lock away (R-TXN-26)."""

    kind = "lock_preempted"
