"""One transaction: its id, its chain in the log, its locks, the versions that its writes replaced (R-TXN-30 to
R-TXN-46).

States: *open*; *abort-only* after a lock conflict; *prepared*; *committed*; *aborted*; *possibly committed* when
writing the Commit failed after it may have reached the file (R-TXN-45).

The abort information of a record describes the version before the transaction, and is the same in every LN that the
transaction writes for that record (R-TXN-32): ``writes`` carries it from version to version.

A *replicated* transaction has a negative id; its LNs, its Commit and its Abort are entries of the replication stream.
On a master they take the next VLSN; on a replica the replay sets the VLSN that the master allocated (``vlsn``,
``end``). On a replica the transaction is *importunate*: it takes locks away from readers rather than wait for ever
(R-TXN-26).
"""

from __future__ import annotations

import time
from collections.abc import Hashable
from enum import Enum
from typing import NamedTuple

from engine.errors import JetoolError, TransactionAbortedError, TransactionStateError, caused_by
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.tree.apply import RecordVersion
from engine.tree.database_state import DatabaseState
from engine.tree.keys import Key
from engine.txn.lock_errors import LockConflictError, LockPreemptedError


class Isolation(Enum):
    """The isolation, which determines how long read locks are held (R-TXN-20)."""

    READ_UNCOMMITTED = "read-uncommitted"
    READ_COMMITTED = "read-committed"
    REPEATABLE_READ = "repeatable-read"
    SERIALIZABLE = "serializable"


class LockMode(Enum):
    """The lock of a single read (JE's LockMode).

    DEFAULT: according to the isolation of the transaction. READ_UNCOMMITTED: no lock; sees uncommitted data.
    READ_COMMITTED: the lock is released when the cursor leaves the record. RMW: a write lock, since an update follows.
    """

    DEFAULT = "default"
    READ_UNCOMMITTED = "read-uncommitted"
    READ_COMMITTED = "read-committed"
    RMW = "rmw"


class Durability(Enum):
    """How durable a commit is before it returns (R-TXN-40, R-LOG-26)."""

    SYNC = "sync"
    WRITE_NO_SYNC = "write-no-sync"
    NO_SYNC = "no-sync"


class TxnState(Enum):
    """The states of a transaction."""

    OPEN = "open"
    ABORT_ONLY = "abort-only"
    PREPARED = "prepared"
    COMMITTED = "committed"
    ABORTED = "aborted"
    POSSIBLY_COMMITTED = "possibly committed"


class StreamEnd(NamedTuple):
    """The fields of a replicated transaction's Commit or Abort beyond its id.

    Attributes:
        time_ms: when it ended, milliseconds since 1970.
        master_id: node id of the master at that time.
        dtvlsn: the highest VLSN known to be durable on a majority; 0 if not known.
        master_term: when the term of that master began, milliseconds since 1970; ``PRE_TERM`` if not known.
    """

    time_ms: int
    master_id: int
    dtvlsn: int
    master_term: int


class Txn:
    """A transaction; it is also the owner of its locks.

    Arguments:
        txn_id: unique in the environment, also across restarts.
        lock_timeout_ms, txn_timeout_ms: longest wait for a lock, longest life; 0 for none.

    Attributes:
        vlsn: the VLSN of its next entry: NULL_VLSN in a local transaction, NEXT_VLSN on a master, and on a replica the
            one that the master allocated.
        end: on a replica, the fields of the received Commit or Abort.
        end_vlsn: VLSN of its Commit or Abort; NULL_VLSN before.
        expired: versions that had already expired when it locked them; it still sees versions that expire later.
    """

    __slots__ = (
        "_cause", "_id", "deleted", "durability", "end", "end_vlsn", "expired", "first_lsn", "isolation", "last_lsn",
        "lock_timeout_ms", "locks", "name", "state", "transactional", "txn_deadline", "vlsn", "writes",
    )  # fmt: skip

    def __init__(
        self,
        txn_id: int,
        *,
        isolation: Isolation = Isolation.REPEATABLE_READ,
        durability: Durability = Durability.SYNC,
        lock_timeout_ms: int = 500,
        txn_timeout_ms: int = 0,
        transactional: bool = True,
    ) -> None:
        self._id = txn_id
        self._cause: JetoolError | None = None
        self.isolation = isolation
        self.durability = durability
        self.lock_timeout_ms = lock_timeout_ms
        self.txn_deadline = time.monotonic() + txn_timeout_ms / 1000 if txn_timeout_ms else None
        self.transactional = transactional
        self.state = TxnState.OPEN
        self.name = ""
        self.vlsn = self.end_vlsn = NULL_VLSN
        self.end: StreamEnd | None = None
        self.first_lsn = self.last_lsn = NULL_LSN
        self.locks: dict[int, None] = {}
        self.expired: set[int] | None = None
        self.writes: dict[int, tuple[DatabaseState, RecordVersion]] = {}
        self.deleted: list[tuple[DatabaseState, Key]] = []

    @property
    def id(self) -> int:
        """The transaction id; replicated ones are negative."""
        return self._id

    @property
    def group(self) -> Hashable:
        """The transaction itself, which shares its locks only with its helpers."""
        return self

    @property
    def preemptable(self) -> bool:
        """Whether replay may take its locks: True for local transactions, False for those of the stream."""
        return self._id > 0

    @property
    def importunate(self) -> bool:
        """Whether it replays the stream of a master, which must always get its locks."""
        return self.vlsn > 0

    def set_abort_only(self, cause: JetoolError) -> None:
        """From now on the transaction can only be aborted."""
        self._cause = cause
        # A prepared transaction stays prepared: only its coordinator decides.
        if self.state is TxnState.OPEN:
            self.state = TxnState.ABORT_ONLY

    def set_preempted(self, cause: LockPreemptedError) -> None:
        """Note that this transaction has lost a lock by preemption."""
        self.set_abort_only(cause)

    def check_usable(self) -> None:
        """Refuse operations on a transaction that is not open.

        Raises:
            TransactionStateError: the transaction has ended. TransactionAbortedError: it is, or can only be, aborted.
        """
        if self.state is TxnState.OPEN:
            return
        aborted = self.state is TxnState.ABORT_ONLY or self.state is TxnState.ABORTED
        error = (TransactionAbortedError if aborted else TransactionStateError)(
            f"transaction {self._id} is {self.state.value}",
            found=str(self._cause) if self._cause is not None else None,
            hint="abort it and begin a new one" if self.state is TxnState.ABORT_ONLY else "begin a new transaction",
        )
        raise caused_by(error, self._cause)

    def wrote(self, lsn: int) -> None:
        """Note an LN of the transaction that has been logged (R-LOG-4 l)."""
        # The smallest of these becomes firstActive of a checkpoint (R-CKPT-10).
        if self.first_lsn == NULL_LSN:
            self.first_lsn = lsn
        self.last_lsn = lsn


def note_lock(owner: object, lsn: int) -> None:
    """Add a lock to the list of its owner, which got the lock with a new version of the record."""
    if isinstance(owner, Txn):
        owner.locks[lsn] = None


class GapLocker:
    """Requests a gap between records for a transaction that inserts into it (RANGE_INSERT).

    This locker is in the transaction's group, and holds a lock only for the duration of the request. The transaction's
    own lock on the record after the gap must neither substitute for this lock nor be changed by it (R-TXN-4).
    """

    __slots__ = ("_txn",)

    def __init__(self, txn: Txn) -> None:
        self._txn = txn

    @property
    def id(self) -> int:
        """The id of the transaction."""
        return self._txn.id

    @property
    def group(self) -> Hashable:
        """The group of the transaction."""
        return self._txn.group

    @property
    def preemptable(self) -> bool:
        """Same as for the transaction."""
        return self._txn.preemptable

    @property
    def importunate(self) -> bool:
        """Same as for the transaction."""
        return self._txn.importunate

    @property
    def lock_timeout_ms(self) -> int:
        """The lock timeout of the transaction."""
        return self._txn.lock_timeout_ms

    @property
    def txn_deadline(self) -> float | None:
        """The deadline of the transaction."""
        return self._txn.txn_deadline

    def set_abort_only(self, cause: LockConflictError) -> None:
        """From now on the transaction can only be aborted."""
        self._txn.set_abort_only(cause)

    def set_preempted(self, cause: LockPreemptedError) -> None:
        """Note that the transaction has lost a lock by preemption."""
        self._txn.set_preempted(cause)
