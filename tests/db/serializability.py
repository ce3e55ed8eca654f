"""A run of random serializable transactions, and a checker that knows nothing of locks.

The value of a key is the list of the transactions that have appended to it; no key exists before its first append. So
the last lists give the order of all versions of a key, and each read, of one key or of a range, says which version of
each key it has seen; a key that a range does not show has been seen as version 0, so phantoms count. From these follow
the dependencies of Adya: who wrote after whom, who read what whom wrote, who read what another one overwrote. Beside
them stands real time: a transaction that began after the commit of another one comes after it. The history is
(strictly) serializable when these have no circle.

A minute with eight threads on a disk, a crash at its end:

    python -m tests.db.serializability 60 8
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Final, NamedTuple

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import Environment
from engine.db.transaction import Transaction
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.txn.lock_errors import LockConflictError
from engine.txn.txn import Durability, Isolation
from tests.support.waiting import PATIENCE_S

KEYS: Final = 40
CONFIG: Final = EnvironmentConfig(
    create=True, node_max_entries=5, file_max_bytes=200_000, checkpoint_bytes=500_000, cache_bytes=100_000,
    max_embedded_bytes=0, lock_timeout_ms=300, run_cleaner=True, cleaner_bytes=200_000, cleaner_min_utilization=80,
    cleaner_min_age=1,
)  # fmt: skip


class Seen(NamedTuple):
    """A version of a key: how many appends it has."""

    key: int
    version: int


class Committed(NamedTuple):
    """A transaction that has committed.

    Attributes:
        number: which one it is.
        reads: the versions that it has seen, but for those that it wrote itself.
        began, ended: by one clock of the whole run.
    """

    number: int
    reads: frozenset[Seen]
    began: float
    ended: float


def key_of(key: int) -> bytes:
    """A key as bytes."""
    return b"%03d" % key


def problems_of(history: Iterable[Committed], lists: Mapping[int, Sequence[int]]) -> list[str]:
    """What is wrong with a history.

    Arguments:
        history: the transactions that committed.
        lists: what stands in each key at the end.

    Returns:
        A sentence for each problem; none when the history is strictly serializable.
    """
    committed = {one.number: one for one in history}
    found = [
        f"key {key} holds an append of transaction {number}, which did not commit"
        for key, numbers in lists.items() for number in numbers if number not in committed
    ]  # fmt: skip
    after: defaultdict[object, set[object]] = defaultdict(set)
    for numbers in lists.values():
        for first, second in pairwise(numbers):
            after[second].add(first)
    for one in committed.values():
        for key, version in one.reads:
            numbers = lists.get(key, ())
            if version > len(numbers):
                found.append(f"transaction {one.number} has seen version {version} of key {key}, which is gone")
                continue
            if version and numbers[version - 1] != one.number:
                after[one.number].add(numbers[version - 1])
            if version < len(numbers) and numbers[version] != one.number:
                after[numbers[version]].add(one.number)
    # Moments in their order; a transaction stands between two of them.
    moments = sorted({one.ended for one in committed.values()})
    for earlier, later in pairwise(moments):
        after["time", later].add(("time", earlier))
    for one in committed.values():
        after["time", one.ended].add(one.number)
    last: float | None = None
    at = 0
    for one in sorted(committed.values(), key=lambda one: one.began):
        while at < len(moments) and moments[at] < one.began:
            last = moments[at]
            at += 1
        if last is not None:
            after[one.number].add(("time", last))
    try:
        TopologicalSorter(after).prepare()
    except CycleError as error:
        found.append(f"a circle of transactions: {' after '.join(str(one) for one in error.args[1][:12])}")
    return found


class Run:
    """Threads of serializable transactions over one database."""

    def __init__(self, storage: Storage, isolation: Isolation = Isolation.SERIALIZABLE) -> None:
        self.env = Environment(storage, CONFIG)
        self.database = self.env.create_database("lists", DatabaseOptions(max_entries=5))
        self.history: list[Committed] = []
        self.done: Counter[str] = Counter()
        self.problems: list[str] = []
        self._isolation = isolation
        self._numbers = iter(range(1, sys.maxsize))
        self._mutex = threading.Lock()

    def work(self, threads: int, seconds: float) -> None:
        """So many threads for so long, with checkpoints, eviction and compression beside them."""
        end = time.monotonic() + seconds
        workers = [threading.Thread(target=self._thread, args=(seed, end), daemon=True) for seed in range(threads)]
        for worker in workers:
            worker.start()
        while time.monotonic() < end and not self.problems:
            time.sleep(0.1)
            self.env.checkpoint(force=True)
            self.env.compress()
            self.env.engine.evict()
        for worker in workers:
            worker.join(PATIENCE_S)
        if any(worker.is_alive() for worker in workers):
            self.problems.append("a thread is stuck")

    def _thread(self, seed: int, end: float) -> None:
        chosen = random.Random(seed)
        try:
            while time.monotonic() < end:
                self._transaction(chosen)
        except Exception as error:
            self.problems.append(f"{type(error).__name__}: {error}")

    def _transaction(self, chosen: random.Random) -> None:
        with self._mutex:
            number = next(self._numbers)
        began = time.monotonic()
        # Short ones commit; long ones meet each other.
        steps = chosen.choice((1, 2, 2, 3, 5))
        durability = chosen.choice((Durability.NO_SYNC, Durability.WRITE_NO_SYNC))
        txn = self.env.begin(isolation=self._isolation, durability=durability)
        seen: dict[int, int] = {}
        written: set[int] = set()
        try:
            for _ in range(steps):
                key, choice = min(chosen.randrange(KEYS), chosen.randrange(KEYS)), chosen.random()
                if choice < 0.45:
                    value = self.database.get(key_of(key), txn, for_update=chosen.random() < 0.3)
                    numbers = numbers_of(value)
                    self._see(seen, written, key, len(numbers))
                    if number not in numbers:
                        text = b",".join(b"%d" % one for one in (*numbers, number))
                        self.database.put(key_of(key), text, txn)
                        written.add(key)
                elif choice < 0.7:
                    self._see(seen, written, key, len(numbers_of(self.database.get(key_of(key), txn))))
                else:
                    self._range(chosen, txn, key, seen, written)
                if chosen.random() < 0.2:
                    # Others have their turn.
                    time.sleep(0)
            if chosen.random() < 0.1:
                txn.abort()
                self.done["aborts"] += 1
                return
            txn.commit()
        except LockConflictError:
            txn.abort()
            self.done["victims"] += 1
            return
        ended = time.monotonic()
        reads = frozenset(Seen(key, version) for key, version in seen.items())
        with self._mutex:
            self.done["commits"] += 1
            self.history.append(Committed(number, reads, began, ended))

    def _range(
        self, chosen: random.Random, txn: Transaction, first: int, seen: dict[int, int], written: set[int]
    ) -> None:
        last = min(first + chosen.randrange(1, 8), KEYS)
        reverse = chosen.random() < 0.3
        found = {
            int(key): len(numbers_of(value))
            for key, value in self.database.items(
                start=key_of(first), end=key_of(last), txn=txn, reverse=reverse
            )
        }  # fmt: skip
        for key in range(first, last):
            self._see(seen, written, key, found.get(key, 0))

    def _see(self, seen: dict[int, int], written: set[int], key: int, version: int) -> None:
        # Of its own appends a transaction learns nothing.
        if key in written:
            return
        if seen.setdefault(key, version) != version:
            self.problems.append(f"key {key} was seen as version {seen[key]} and {version} by one transaction")


def numbers_of(value: bytes | None) -> tuple[int, ...]:
    """The transactions that have appended to a key."""
    return tuple(int(one) for one in value.split(b",")) if value else ()


def lists_of(database: Database) -> dict[int, tuple[int, ...]]:
    """What stands in each key."""
    return {int(key): numbers_of(value) for key, value in database.items()}


def check(run: Run) -> list[str]:
    """Everything that is wrong, before and after a crash of the environment."""
    lists = lists_of(run.database)
    found = [*run.problems, *problems_of(run.history, lists)]
    if run.env.engine.locks.stats().locks:
        found.append("locks are left over")
    run.env.sync()
    run.env.engine.crash()
    with Environment(run.env.engine.storage) as again:
        if lists_of(again.open_database("lists")) != lists:
            found.append("after a crash other records are there")
    return found


def _main(seconds: str, threads: str) -> int:
    with tempfile.TemporaryDirectory() as place:
        run = Run(DiskStorage(place))
        run.work(int(threads), float(seconds))
        found = check(run)
        cleaner = run.env.engine.cleaner
        assert cleaner is not None
        print(dict(run.done), cleaner.stats())
        print("\n".join(found) or "strictly serializable")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
