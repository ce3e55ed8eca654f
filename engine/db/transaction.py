"""The handle of a transaction."""

from __future__ import annotations

from engine.arguments import BytesLike, bytes_of
from engine.db.engine import Engine
from engine.errors import ArgumentError
from engine.txn.txn import Durability, Txn, TxnState


class Transaction:
    """A transaction of an environment, created by ``Environment.begin``.

    As a context manager it commits when the block ends, and aborts when the block raises. If the block catches a lock
    conflict and continues, all its writes are lost: the transaction is aborted, and ``TransactionAbortedError`` raised.
    One thread at a time may use it.
    """

    __slots__ = ("engine", "inner")

    def __init__(self, engine: Engine, inner: Txn) -> None:
        self.engine = engine
        self.inner = inner

    def __repr__(self) -> str:
        return f"<Transaction {self.inner.id}, {self.inner.state.value}>"

    @property
    def id(self) -> int:
        """The transaction id."""
        return self.inner.id

    @property
    def state(self) -> TxnState:
        """The current state of the transaction."""
        return self.inner.state

    def commit(self, durability: Durability | None = None) -> int:
        """Commit.

        Arguments:
            durability: how durable the commit is when this call returns; None: the durability of the transaction.

        Returns:
            LSN of the Commit; NULL_LSN when nothing was written.
        """
        lsn = self.engine.commit(self.inner, durability)
        self.engine.after_write()
        return lsn

    def abort(self) -> None:
        """Undo all changes of the transaction."""
        self.engine.abort(self.inner)

    def prepare(self, format_id: int, gtrid: BytesLike, bqual: BytesLike) -> int:
        """Do the first phase of a two-phase commit; afterwards the transaction awaits its decision, even across
        restarts.
        """
        return self.engine.txns.prepare(self.inner, format_id, bytes_of(gtrid, "gtrid"), bytes_of(bqual, "bqual"))

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Nothing to do: the block has ended the transaction, or has prepared it, in which case its coordinator decides.
        if self.inner.state not in (TxnState.OPEN, TxnState.ABORT_ONLY):
            return
        if kind is not None:
            self.abort()
        elif self.inner.state is TxnState.ABORT_ONLY:
            try:
                # Raises the error that made it abort-only; otherwise the block would appear to have committed.
                self.inner.check_usable()
            finally:
                self.abort()
        else:
            try:
                self.commit()
            finally:
                if self.state is TxnState.OPEN:
                    self.abort()  # The group has refused the commit: no part of it was logged.


def inner_of(txn: Transaction | None, engine: Engine) -> Txn | None:
    """The transaction behind a handle; None for None.

    Raises:
        ArgumentError: it is not a transaction, or one of another environment.
    """
    if txn is None:
        return None
    if not isinstance(txn, Transaction):
        raise ArgumentError(
            "wrong type for the transaction",
            expected="what Environment.begin returns",
            found=type(txn).__name__,
            consequence="nothing was changed",
        )
    if txn.engine is not engine:
        raise ArgumentError(
            f"transaction {txn.inner.id} belongs to another environment",
            file=txn.engine.home,
            consequence="nothing was changed",
        )
    return txn.inner
