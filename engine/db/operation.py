"""One writing operation and its locker (R-TXN-34).

The locker is the transaction that the caller gave, which goes on afterwards; or a transaction of the operation's own,
which is committed when it ends well and aborted when it does not; or, in a database that is not transactional, a locker
that writes without a transaction id and gives its locks back at the end.

A class and not a generator: every put and delete goes through one, and this costs a third.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.txn.txn import Txn, TxnState

if TYPE_CHECKING:
    from engine.db.environment import Environment


class WriteOperation:
    """A context whose value is the locker.

    Arguments:
        env: where it works.
        locker: what takes the locks.
        given: it is the caller's transaction.
    """

    __slots__ = ("_env", "_given", "_locker")

    def __init__(self, env: Environment, locker: Txn, *, given: bool) -> None:
        self._env = env
        self._locker = locker
        self._given = given

    def __enter__(self) -> Txn:
        return self._locker

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._given:
            if kind is None:
                self._env.keep_budget()
        elif kind is None:
            self._succeed()
        else:
            self._fail()

    def _succeed(self) -> None:
        env, locker = self._env, self._locker
        if locker.transactional:
            try:
                env.commit(locker)
            finally:
                if locker.state is TxnState.OPEN:
                    env.abort(locker)  # The group has refused the commit: nothing of it was logged.
        else:
            if locker.deleted:
                env.compressor.add(locker)
            env.txns.end_operation(locker)
        env.after_write()

    def _fail(self) -> None:
        if self._locker.transactional:
            self._env.abort(self._locker)
        else:
            self._env.txns.end_operation(self._locker)
