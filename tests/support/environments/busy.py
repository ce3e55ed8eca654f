"""A workload that goes where trees change shape, for crash and cut tests.

Beside what ``Workload`` does: runs of neighbouring keys come and go, so that nodes split, empty, are pruned and split
again (reverse splits); single updates between checkpoints, so that BINs go as deltas; one transaction stays open over
checkpoints; eviction while a checkpoint builds its map and while it flushes; naming operations within transactions,
committed and aborted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from engine.catalog.name_operations import DatabaseOptions
from engine.db.environment import Environment
from engine.db.transaction import Transaction
from engine.storage.base import Storage
from engine.txn.txn import TxnState
from tests.support.environments.workload import SMALL, State, Workload

_RUN: Final = 9


class EvictingListener:
    """Evicts everything at each step of a checkpoint (R-CKPT-40, all three states)."""

    def __init__(self) -> None:
        self.env: Environment | None = None

    def step(self, name: str, done: int, total: int) -> None:
        """A step begins."""
        if self.env is not None and name.startswith("checkpoint"):
            self.env.engine.evictor.run(0)


def open_busy(storage: Storage) -> Environment:
    """An environment whose checkpoints run beside eviction."""
    listener = EvictingListener()
    env = Environment(storage, SMALL, listener)
    listener.env = env
    return env


class BusyWorkload(Workload):
    """Random operations of one seed; see above."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, keys=40)
        self._open: Transaction | None = None

    def step(self, env: Environment) -> None:
        """One operation."""
        actions: list[tuple[float, Callable[[Environment], None]]] = [
            (0.12, self._insert_run),
            (0.24, self._delete_run),
            (0.40, self._update_one),
            (0.50, lambda env: self._checkpoint(env)),
            (0.58, lambda env: self._compress(env)),
            (0.62, lambda env: self._evict(env)),
            (0.68, self._long_transaction),
            (0.76, self._names_in_a_transaction),
            (0.80, self._naming),
        ]
        choice = self.random.random()
        for limit, action in actions:
            if choice < limit:
                action(env)
                return
        self._transaction(env)

    def finish(self) -> None:
        """Abort what is still open."""
        if self._open is not None and self._open.state is TxnState.OPEN:
            self._open.abort()
        self._open = None

    def _insert_run(self, env: Environment) -> None:
        self._change_run(env, delete=False)

    def _delete_run(self, env: Environment) -> None:
        self._change_run(env, delete=True)

    def _change_run(self, env: Environment, *, delete: bool) -> None:
        first = self.random.randrange(0, self.keys, _RUN)
        state = self._copy()
        name = self.random.choice(("plain", "dups"))
        with env.open_database(name) as db, env.begin() as txn:
            for number in range(first, first + _RUN):
                key, data = b"%04d" % number, b"run %d" % number
                if delete:
                    db.delete(key, txn)
                    for gone in [k for k in state[name] if (k[0] if db.duplicates else k) == key]:
                        del state[name][gone]
                else:
                    db.put(key, data, txn)
                    state[name][(key, data) if db.duplicates else key] = data
            self.in_flight = state
        self._done()

    def _update_one(self, env: Environment) -> None:
        state = self._copy()
        key, data = b"%04d" % self.random.randrange(self.keys), self.random.randbytes(self.random.choice((5, 40)))
        state["plain"][key] = data
        with env.open_database("plain") as db, env.begin() as txn:
            db.put(key, data, txn)
            self.in_flight = state
        self._done()

    def _checkpoint(self, env: Environment) -> None:
        env.checkpoint(force=True, minimize=self.random.random() < 0.4)

    def _compress(self, env: Environment) -> None:
        env.compress()

    def _evict(self, env: Environment) -> None:
        env.engine.evict()

    def _long_transaction(self, env: Environment) -> None:
        """Open, write beside what everybody else writes, stay open over whatever follows; in the end abort."""
        if self._open is not None:
            self.finish()
            return
        self._open = env.begin()
        for name in ("plain", "dups"):
            with env.open_database(name) as db:
                for number in range(3):
                    db.put(b"open %d" % number, b"never committed", self._open)

    def _names_in_a_transaction(self, env: Environment) -> None:
        state = self._copy()
        txn = env.begin()
        if "made" in state:
            env.rename_database("made", "moved", txn)
            state["moved"] = state.pop("made")
        elif "moved" in state:
            env.remove_database("moved", txn)
            del state["moved"]
        else:
            with env.create_database("made", DatabaseOptions(max_entries=6), txn) as db:
                for number in range(10):
                    db.put(b"%d" % number, b"x" * number, txn)
            state["made"] = {b"%d" % number: b"x" * number for number in range(10)}
        if self.random.random() < 0.4:
            txn.abort()
            return
        self.in_flight = state
        txn.commit()
        self._done()

    def _copy(self) -> State:
        copied: dict[str, dict[Any, bytes]] = {name: dict(records) for name, records in self.committed.items()}
        return copied
