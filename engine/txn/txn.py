"""One transaction: its id, its chain in the log, its locks, what its writes replaced (R-TXN-30 to R-TXN-46).

States: *open*; *abort-only* after a lock conflict; *prepared*; *committed*; *aborted*; *possibly committed* when
writing the Commit failed after it may have reached the file (R-TXN-45).

The abort information of a record describes the version before the transaction, and is the same in every LN that the
transaction writes for that record (R-TXN-32): ``writes`` carries it from version to version.

A *replicated* transaction has a negative id; its LNs, its Commit and its Abort are entries of the replication stream.
On a master they take the next VLSN; on a replica the replay says which one the master gave (``vlsn``, ``end``), and the
transaction is *importunate*: it takes locks away from readers rather than wait for ever (R-TXN-26).
"""

from __future__ import annotations

import time
from collections.abc import Hashable
from enum import Enum
from typing import NamedTuple

from engine.errors import JetoolError, RefusedError, caused_by
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.tree.apply import RecordVersion
from engine.tree.database_state import DatabaseState
from engine.tree.keys import Key
from engine.txn.lock_errors import LockConflictError, LockPreemptedError


class Isolation(Enum):
    """How long read locks are held (R-TXN-20)."""

    READ_UNCOMMITTED = "read-uncommitted"
    READ_COMMITTED = "read-committed"
    REPEATABLE_READ = "repeatable-read"
    SERIALIZABLE = "serializable"


class LockMode(Enum):
    """What a single read asks for (JE's LockMode).

    DEFAULT: what the isolation of the transaction says. READ_UNCOMMITTED: what is there, committed or not, without a
    lock. READ_COMMITTED: the lock goes when the cursor leaves the record. RMW: a write lock, since a change follows.
    """

    DEFAULT = "default"
    READ_UNCOMMITTED = "read-uncommitted"
    READ_COMMITTED = "read-committed"
    RMW = "rmw"


class Durability(Enum):
    """How far a commit's bytes get before it returns (R-TXN-40, R-LOG-26)."""

    SYNC = "sync"
    WRITE_NO_SYNC = "write-no-sync"
    NO_SYNC = "no-sync"


class TxnState(Enum):
    """Where a transaction stands."""

    OPEN = "open"
    ABORT_ONLY = "abort-only"
    PREPARED = "prepared"
    COMMITTED = "committed"
    ABORTED = "aborted"
    POSSIBLY_COMMITTED = "possibly committed"


class StreamEnd(NamedTuple):
    """What the Commit or Abort of a replicated transaction says beyond its id.

    Attributes:
        time_ms: when it ended, milliseconds since 1970.
        master_id: node id of the master then.
        dtvlsn: the highest VLSN known to be durable on a majority; 0 when not known.
    """

    time_ms: int
    master_id: int
    dtvlsn: int


class Txn:
    """A transaction; also what takes its locks.

    Arguments:
        txn_id: unique while the environment lives and across restarts.
        lock_timeout_ms, txn_timeout_ms: longest wait for a lock, longest life; 0 for none.

    Attributes:
        vlsn: the VLSN of its next entry: NULL_VLSN in a local transaction, NEXT_VLSN on a master.
        end: on a replica, what the received Commit or Abort says.
        end_vlsn: of its Commit or Abort, NULL_VLSN before.
        expired: versions that had expired already when it locked them; what expires later it goes on seeing.
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
        """False: a transaction does not share its locks."""
        return self

    @property
    def preemptable(self) -> bool:
        """Replay on a replica takes locks away from readers, not from the stream's own transactions."""
        return self._id > 0

    @property
    def importunate(self) -> bool:
        """Whether it replays the stream of a master, which cannot be refused a lock."""
        return self.vlsn > 0

    def set_abort_only(self, cause: JetoolError) -> None:
        """The transaction can only be aborted from now on."""
        self._cause = cause
        # A prepared transaction stays so: only its coordinator decides.
        if self.state is TxnState.OPEN:
            self.state = TxnState.ABORT_ONLY

    def set_preempted(self, cause: LockPreemptedError) -> None:
        """A lock has been taken away."""
        self.set_abort_only(cause)

    def check_usable(self) -> None:
        """Refuse operations on a transaction that is not open.

        Raises:
            RefusedError: it has ended, or can only be aborted.
        """
        if self.state is TxnState.OPEN:
            return
        error = RefusedError(
            f"transaction {self._id} is {self.state.value}",
            found=str(self._cause) if self._cause is not None else None,
            hint="abort it and begin a new one" if self.state is TxnState.ABORT_ONLY else "begin a new transaction",
        )
        raise caused_by(error, self._cause)

    def wrote(self, lsn: int) -> None:
        """An LN of the transaction has been logged (R-LOG-4 l)."""
        # A checkpoint takes the smallest of these as firstActive (R-CKPT-10).
        if self.first_lsn == NULL_LSN:
            self.first_lsn = lsn
        self.last_lsn = lsn


def note_lock(owner: object, lsn: int) -> None:
    """A lock has come to its owner with a new version of the record."""
    if isinstance(owner, Txn):
        owner.locks[lsn] = None


class GapLocker:
    """Asks for a gap between records on behalf of a transaction that inserts into it (RANGE_INSERT).

    It shares the transaction's locks and owns none for longer than the question takes: what the transaction holds on
    the record after the gap must neither stand for this lock nor be changed by it (R-TXN-4).
    """

    __slots__ = ("_txn",)

    def __init__(self, txn: Txn) -> None:
        self._txn = txn

    @property
    def id(self) -> int:
        """That of the transaction."""
        return self._txn.id

    @property
    def group(self) -> Hashable:
        """That of the transaction."""
        return self._txn.group

    @property
    def preemptable(self) -> bool:
        """As the transaction."""
        return self._txn.preemptable

    @property
    def importunate(self) -> bool:
        """As the transaction."""
        return self._txn.importunate

    @property
    def lock_timeout_ms(self) -> int:
        """That of the transaction."""
        return self._txn.lock_timeout_ms

    @property
    def txn_deadline(self) -> float | None:
        """That of the transaction."""
        return self._txn.txn_deadline

    def set_abort_only(self, cause: LockConflictError) -> None:
        """The transaction can only be aborted from now on."""
        self._txn.set_abort_only(cause)

    def set_preempted(self, cause: LockPreemptedError) -> None:
        """A lock has been taken away."""
        self._txn.set_preempted(cause)
