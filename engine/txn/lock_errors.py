"""Errors of locking: all are refusals (exit code 3), which the application may answer by trying its transaction again.

Each error leaves its transaction abort-only: the lock table notifies the locker before it raises. The usual fields hold
the text; ``locker_id`` and ``lock_lsn`` are for programs.
"""

from __future__ import annotations

from typing import ClassVar

from engine.errors import RefusedError
from engine.format.lsn import format_lsn


class LockConflictError(RefusedError):
    """A record lock could not be obtained or kept.

    Arguments:
        what: one clause, as for every error.
        locker_id: id of the failing transaction (or other locker).
        lock_lsn: the LSN that it requested or held.
        found: the conflicting owners.
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
    """The lock was not granted within the lock timeout (``je.lock.timeout``, R-TXN-24)."""

    kind = "lock_timeout"


class TransactionTimeoutError(LockConflictError):
    """The transaction's own timeout expired while it waited (``je.txn.timeout``, R-TXN-24)."""

    kind = "transaction_timeout"


class DeadlockError(LockConflictError):
    """The transaction was chosen as the victim of a deadlock (R-TXN-25)."""

    kind = "deadlock"


class LockPreemptedError(LockConflictError):
    """A replayed transaction of the replication stream took the lock (R-TXN-26)."""

    kind = "lock_preempted"
