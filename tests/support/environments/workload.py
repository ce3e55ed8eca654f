"""A random workload beside a model: what every crash test compares with.

``Workload`` runs transactions against an environment and keeps, in plain dictionaries, what must be there.
``committed`` is the state after the last commit that returned; ``in_flight`` the state that a commit under way would
make. After a crash exactly one of the two must be found.
"""

from __future__ import annotations

import random
from typing import Any

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import Environment
from engine.db.transaction import Transaction
from engine.storage.base import Storage

State = dict[str, dict[Any, bytes]]

NAMES = ("plain", "dups", "prefixed")
# Room for some three nodes of the size that SMALL gives them.
TINY_CACHE = 6_000
SMALL = EnvironmentConfig(
    create=True, node_max_entries=6, file_max_bytes=6_000, buffer_bytes=2_000, checkpoint_bytes=0, lock_timeout_ms=50
)


def open_env(storage: Storage, **changes: Any) -> Environment:
    from dataclasses import replace

    return Environment(storage, replace(SMALL, **changes))


def contents(env: Environment) -> State:
    """Every record of every database."""
    found: State = {}
    for name in env.database_names():
        with env.open_database(name) as db:
            found[name] = {(k, d) if db.duplicates else k: d for k, d in db.items()}
    return found


class Workload:
    """Random transactions of one seed."""

    def __init__(self, seed: int, *, keys: int = 60, ddl: bool = True) -> None:
        self.random = random.Random(seed)
        self.keys = keys
        self.ddl = ddl
        self.committed: State = {}
        self.in_flight: State | None = None
        self.marks: list[tuple[int, State]] = []
        self._env: Environment | None = None

    def allowed(self) -> list[State]:
        """What a crash may leave now: exactly one of these."""
        return [self.committed] + ([self.in_flight] if self.in_flight is not None else [])

    def start(self, env: Environment) -> None:
        """Make the databases, one transaction each."""
        self._env = env
        for name in NAMES:
            options = DatabaseOptions(name == "dups", name == "prefixed", env.config.node_max_entries)
            self.in_flight = {**self.committed, name: {}}
            env.create_database(name, options).close()
            self._done()

    def run(self, env: Environment, steps: int) -> None:
        """So many transactions, checkpoints and compressions."""
        self._env = env
        for _ in range(steps):
            self.step(env)

    def step(self, env: Environment) -> None:
        """One transaction, checkpoint or compression."""
        choice = self.random.random()
        if choice < 0.08:
            env.checkpoint(force=True, minimize=self.random.random() < 0.3)
        elif choice < 0.12:
            env.compress()
        elif choice < 0.14:
            env.engine.evict()
        elif choice < 0.15 and self.ddl:
            self._naming(env)
        elif choice < 0.22:
            env.sync()
        else:
            self._transaction(env)

    def _transaction(self, env: Environment) -> None:
        state: State = {name: dict(records) for name, records in self.committed.items()}
        txn = env.begin()
        for _ in range(self.random.randint(1, 8)):
            name = self.random.choice([name for name in NAMES if name in state])
            with env.open_database(name) as db:
                self._write(db, state[name], txn)
        if self.random.random() < 0.2:
            txn.abort()
            return
        self.in_flight = state
        txn.commit()
        self._done()

    def _write(self, db: Database, records: dict[Any, bytes], txn: Transaction) -> None:
        number = self.random.randrange(self.keys)
        key = b"common/prefix/%04d" % number if db.name == "prefixed" else b"%04d" % number
        data = bytes(self.random.choices(b"abcdef", k=self.random.choice((0, 3, 16, 17, 60))))
        if db.duplicates:
            self._write_duplicate(db, records, key, data, txn)
        elif self.random.random() < 0.35:
            assert db.delete(key, txn) == (1 if records.pop(key, None) is not None else 0)
        else:
            assert db.put(key, data, txn)
            records[key] = data

    def _write_duplicate(
        self, db: Database, records: dict[Any, bytes], key: bytes, data: bytes, txn: Transaction
    ) -> None:
        if self.random.random() < 0.3:
            expected = [pair for pair in records if pair[0] == key]
            assert db.delete(key, txn) == len(expected)
            for pair in expected:
                del records[pair]
        else:
            assert db.put(key, data, txn)
            records[(key, data)] = data

    def _naming(self, env: Environment) -> None:
        choice = self.random.random()
        if "extra" not in self.committed:
            self.in_flight = {**self.committed, "extra": {}}
            env.create_database("extra").close()
        elif choice < 0.3:
            self.in_flight = {name: records for name, records in self.committed.items() if name != "extra"}
            env.remove_database("extra")
        elif choice < 0.6:
            state = {name: dict(records) for name, records in self.committed.items()}
            with env.open_database("extra") as db, env.begin() as txn:
                for i in range(5):
                    db.put(b"x%d" % i, b"y" * i, txn)
                    state["extra"][b"x%d" % i] = b"y" * i
                self.in_flight = state
        else:
            self.in_flight = {**self.committed, "extra": {}}
            env.truncate_database("extra")
        self._done()

    def _done(self) -> None:
        if self.in_flight is not None:
            self.committed, self.in_flight = self.in_flight, None
            if self._env is not None and self._env.engine.writer is not None:
                self.marks.append((self._env.engine.writer.last_lsn, self.committed))
