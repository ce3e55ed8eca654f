"""One writing operation: in the transaction of the caller, in its own transaction, or without a transaction."""

from __future__ import annotations

from engine.db.engine import Engine
from engine.errors import UsageError
from engine.tree.database_state import DatabaseState
from engine.txn.txn import Txn, TxnState


class WriteOperation:
    """One writing operation, a context whose value is its locker (R-TXN-34).

    The locker is one of three. The caller's transaction stays open afterwards. A transaction of the operation's own is
    committed if the operation succeeds, and aborted otherwise. In a database that is not transactional, a locker for
    one operation writes without a transaction id and releases its locks at the end.

    This is a class and not a generator, which would make every put and delete a third slower.

    Arguments:
        engine: the environment.
        locker: takes the locks.
        given: whether the transaction is the caller's.
    """

    __slots__ = ("_engine", "_given", "_locker")

    def __init__(self, engine: Engine, locker: Txn, *, given: bool) -> None:
        self._engine = engine
        self._locker = locker
        self._given = given

    def __enter__(self) -> Txn:
        return self._locker

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._given:
            if kind is None:
                self._engine.keep_budget()
        elif kind is None:
            self._succeed()
        else:
            self._fail()

    def _succeed(self) -> None:
        engine, locker = self._engine, self._locker
        if locker.transactional:
            try:
                engine.commit(locker)
            finally:
                if locker.state is TxnState.OPEN:
                    engine.abort(locker)  # The group has refused the commit: no part of it was logged.
        else:
            if locker.deleted:
                engine.compressor.add(locker)
            engine.txns.end_operation(locker)
        engine.after_write()

    def _fail(self) -> None:
        if self._locker.transactional:
            self._engine.abort(self._locker)
        else:
            self._engine.txns.end_operation(self._locker)


def write_operation(
    engine: Engine, txn: Txn | None, *, db: DatabaseState | None = None, transactional: bool | None = None
) -> WriteOperation:
    """One writing operation, as a context whose value is its locker: see ``WriteOperation``.

    Arguments:
        engine: the environment.
        txn: the transaction of the caller, if there is one.
        db: the database that is written; None for a naming operation.
        transactional: whether to use a transaction if the caller has no transaction; None: the database decides.

    Raises:
        UsageError: a transaction was given for a deferred-write database.
        RefusedError: the environment does not accept writes.
    """
    engine.check_writes()
    if txn is not None:
        if db is not None and db.deferred:
            raise UsageError(f"database {db.label} is deferred-write and takes no transactions")
        return WriteOperation(engine, txn, given=True)
    if transactional is None:
        transactional = db is None or db.transactional
    locker = engine.txns.begin(transactional=transactional or engine.replicated, replicated=engine.replicated)
    return WriteOperation(engine, locker, given=False)
