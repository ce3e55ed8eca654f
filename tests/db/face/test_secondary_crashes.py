"""Secondaries under crashes: at every counted operation the indexes and their primary agree after recovery.

``python -m tests.db.face.test_secondary_crashes FIRST_SEED LAST_SEED [STEPS]`` does the same for a long time.
"""

from __future__ import annotations

import contextlib
import random
import sys
from dataclasses import replace

import pytest

from engine.db.environment import Environment
from engine.db.secondary import DeleteConstraintError, ForeignKeyDelete, SecondaryConfig, UniqueConstraintError
from engine.db.transaction import Transaction
from engine.log.files import LOCK_FILE
from engine.storage.crash import CrashMode, CrashStorage
from engine.storage.memory import MemoryStorage
from tests.support.environments.people import OF_CITY, People, city, disagreements
from tests.support.environments.workload import open_env

NAMES = ("people", "people.city", "people.mail", "people.tags")
Content = dict[bytes, bytes]


class IndexedRun:
    """Transactions over a primary with secondaries and a foreign key; every counted operation is a crash point."""

    def __init__(self, seed: int) -> None:
        self.points = 0
        self._random = random.Random(seed)
        self._committed: Content = {}
        self._in_flight: Content | None = None
        self._filling = False
        self._storage = CrashStorage(listener=self._before)

    def go(self, steps: int) -> None:
        """Run, and check every point."""
        env = open_env(self._storage)
        action = self._random.choice((ForeignKeyDelete.ABORT, ForeignKeyDelete.CASCADE))
        people = People(env)
        for name in (b"Oslo", b"Rome", b"Bern"):
            people.cities.put(name, b"")
        people.by_city.close()
        config = replace(OF_CITY, foreign_key_database=people.cities, on_foreign_delete=action)
        people.by_city = people.open("people.city", config)
        for _ in range(steps):
            self._step(people)
        people.close()
        # Filled while it crashes: the whole index or none of it.
        self._filling = True
        env.remove_database("people.city")
        with env.open_database("people") as db:
            env.open_secondary("people.city", db, SecondaryConfig(create=True, key_creator=city)).close()
        env.close()

    def _step(self, people: People) -> None:
        chosen = self._random
        match chosen.randrange(10):
            case 0:
                people.env.checkpoint(force=True)
            case 1:
                people.env.compress()
            case 2:
                people.env.engine.evict()
            case _:
                with contextlib.suppress(UniqueConstraintError, DeleteConstraintError):
                    self._transaction(people)
        assert people.disagreements() == []

    def _transaction(self, people: People) -> None:
        chosen = self._random
        txn = people.env.begin()
        try:
            for _ in range(chosen.randint(1, 5)):
                self._write(people, txn)
            self._in_flight = dict(people.db.items(txn=txn))
        except (UniqueConstraintError, DeleteConstraintError):
            txn.abort()
            raise
        if chosen.random() < 0.2:
            self._in_flight = None
            txn.abort()
            return
        txn.commit()
        self._committed, self._in_flight = self._in_flight, None

    def _write(self, people: People, txn: Transaction) -> None:
        chosen = self._random
        key = b"%02d" % chosen.randrange(20)
        names = (b"", b"Oslo", b"Rome", b"Bern")
        match chosen.randrange(8):
            case 0:
                people.db.delete(key, txn)
            case 1:
                people.by_tag.delete(chosen.choice((b"a", b"b")), txn)
            case 2:
                name = chosen.choice(names[1:])
                people.cities.delete(name, txn)
                people.cities.put(name, b"", txn)
            case _:
                mail = b"m%d" % chosen.randrange(30) if chosen.random() < 0.4 else b""
                more = b",".join(chosen.sample((b"a", b"b", b"c"), chosen.randrange(4)))
                people.db.put(key, b"|".join((chosen.choice(names), mail, more)), txn)

    def _before(self, kind: str, path: str) -> None:
        if path == LOCK_FILE:
            return
        allowed = [self._committed] + ([self._in_flight] if self._in_flight is not None else [])
        for mode in CrashMode:
            image = self._storage.image(mode, self._storage.operations)
            what = f"before operation {self._storage.operations + 1}, {kind} {path}, {mode.value}"
            self.points += 1
            check(image, allowed, what, filling=self._filling)


def check(image: MemoryStorage, allowed: list[Content], what: str, *, filling: bool) -> None:
    """Recover; the primary is as it was, and so are its secondaries; one that was being filled may be empty."""
    with open_env(image) as env:
        names = env.database_names()
        found = {name: list(env.open_database(name)) for name in NAMES if name in names}
        records = found.get("people", [])
        assert dict(records) in allowed, what
        wrong = disagreements(records, *(found.get(name, []) for name in NAMES[1:]))
        unfilled = filling and not found.get("people.city")
        assert [line for line in wrong if not (unfilled and line.startswith("city:"))] == [], what
        reopened(env, what)


def reopened(env: Environment, what: str) -> None:
    """Opened again the secondaries agree, filled where they were empty."""
    people = People(env)
    assert people.disagreements() == [], what
    people.close()


def test_secondaries_agree_at_every_crash_point() -> None:
    run = IndexedRun(4)
    run.go(steps=18)
    assert run.points > 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_secondaries_agree_at_many_crash_points(seed: int) -> None:
    run = IndexedRun(seed)
    run.go(steps=60)
    assert run.points > 300


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        long_run = IndexedRun(number)
        long_run.go(int(sys.argv[3]) if len(sys.argv) > 3 else 60)
        sys.stdout.write(f"seed {number}: {long_run.points} points\n")
        sys.stdout.flush()
