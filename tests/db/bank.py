"""Mixed transactions from many threads, and a checker of their histories.

Each account holds ``version|balance``. A transfer reads accounts, moves money, and raises the version of what it wrote
by one. So after any number of threads: no version is written twice (a lost update), none is missing, the last one is
what stands there, and the sum of the balances is what it was at every scan. Serializable scans see the same twice.
Meanwhile an eager cleaner takes the log away under them: no record is so small that its slot keeps it.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.db.transaction import Transaction
from engine.storage.base import Storage
from engine.txn.lock_errors import LockConflictError
from engine.txn.txn import Durability, Isolation
from tests.support.waiting import PATIENCE_S

ACCOUNTS: Final = 60
EACH: Final = 1000
_NOISE: Final = 200
CONFIG: Final = EnvironmentConfig(
    create=True, node_max_entries=6, file_max_bytes=60_000, buffer_bytes=4000, lock_timeout_ms=5000,
    checkpoint_bytes=300_000, cache_bytes=60_000, max_embedded_bytes=0, run_cleaner=True, cleaner_bytes=30_000,
    cleaner_min_utilization=90, cleaner_min_file_utilization=50, cleaner_min_age=1,
)  # fmt: skip


def key_of(account: int) -> bytes:
    """The key of an account."""
    return b"%04d" % account


class Bank:
    """Accounts, an index with duplicates, and what the threads have done to them."""

    def __init__(self, storage: Storage) -> None:
        self.env = Environment(storage, CONFIG)
        self.accounts = self.env.create_database("accounts", DatabaseOptions(max_entries=6))
        self.index = self.env.create_database("index", DatabaseOptions(duplicates=True, max_entries=6))
        with self.env.begin() as txn:
            for account in range(ACCOUNTS):
                self.accounts.put(key_of(account), b"0|%d" % EACH, txn)
        self.done: Counter[str] = Counter()
        self.problems: list[str] = []
        self._history: dict[tuple[int, int], int] = {}
        self._mutex = threading.Lock()

    def run(self, threads: int, seconds: float, enough: Callable[[], bool]) -> None:
        """So many threads, with checkpoints, compression, eviction and naming operations beside them.

        Arguments:
            threads: how many.
            seconds: at least so long.
            enough: and until this is so.
        """
        least, most = time.monotonic() + seconds, time.monotonic() + seconds + PATIENCE_S
        stop = threading.Event()
        workers = [threading.Thread(target=self._work, args=(seed, stop), daemon=True) for seed in range(threads)]
        for worker in workers:
            worker.start()
        while not self.problems and (time.monotonic() < least or (not enough() and time.monotonic() < most)):
            time.sleep(0.05)
            self._maintain()
        stop.set()
        for worker in workers:
            worker.join(PATIENCE_S)
        if any(worker.is_alive() for worker in workers):
            self.problems.append("a thread is stuck")

    def check(self) -> list[str]:
        """Everything that does not fit."""
        found = list(self.problems)
        total = 0
        for account in range(ACCOUNTS):
            version, balance = self._read(account, None)
            total += balance
            written = sorted(number for key, number in self._history if key == account)
            if written != list(range(1, len(written) + 1)):
                found.append(f"account {account}: versions are missing")
            if written and (version, balance) != (written[-1], self._history[account, written[-1]]):
                found.append(f"account {account}: its last version is not there")
        if total != ACCOUNTS * EACH:
            found.append(f"the sum is {total}")
        if self.env.engine.locks.stats().locks:
            found.append("locks are left over")
        return found

    def _work(self, seed: int, stop: threading.Event) -> None:
        chosen = random.Random(seed)
        try:
            while not stop.is_set():
                self._transaction(seed, chosen)
        except Exception as error:
            self.problems.append(f"{type(error).__name__}: {error}")

    def _transaction(self, seed: int, chosen: random.Random) -> None:
        isolation = chosen.choice((Isolation.REPEATABLE_READ, Isolation.SERIALIZABLE))
        txn = self.env.begin(isolation=isolation, durability=chosen.choice(list(Durability)))
        choice = chosen.random()
        try:
            if choice < 0.55:
                self._transfer(chosen, txn)
            elif choice < 0.65:
                self._scan(txn)
            elif choice < 0.9:
                self._noise(seed, chosen, txn)
            else:
                self._ranges(txn)
        except LockConflictError:
            txn.abort()
            self.done["victims"] += 1

    def _transfer(self, chosen: random.Random, txn: Transaction) -> None:
        source, target, *others = chosen.sample(range(ACCOUNTS), chosen.choice((2, 3)))
        amount = chosen.randint(1, 9)
        written = {}
        for account, change in ((source, -amount), (target, amount), *((other, 0) for other in others)):
            version, balance = self._read(account, txn, for_update=chosen.random() < 0.4)
            if change:
                written[account] = (version + 1, balance + change)
                self.accounts.put(key_of(account), b"%d|%d" % written[account], txn)
        if chosen.random() < 0.1:
            txn.abort()
            return
        txn.commit()
        self.done["transfers"] += 1
        with self._mutex:
            for account, (version, balance) in written.items():
                if (account, version) in self._history:
                    self.problems.append(f"account {account}: version {version} was written twice")
                self._history[account, version] = balance

    def _scan(self, txn: Transaction) -> None:
        found = list(self.accounts.items(txn=txn))
        total = sum(int(value.split(b"|")[1]) for key, value in found if len(key) == 4)
        if total != ACCOUNTS * EACH:
            self.problems.append(f"a scan has seen the sum {total}")
        serializable = txn.inner.isolation is Isolation.SERIALIZABLE
        if serializable and list(self.accounts.items(txn=txn)) != found:
            self.problems.append("a serializable scan has seen a phantom")
        txn.commit()
        self.done["scans"] += 1

    def _noise(self, seed: int, chosen: random.Random, txn: Transaction) -> None:
        """Records that come and go between and beside the accounts."""
        key = b"%02d" % chosen.randrange(20)
        if chosen.random() < 0.5:
            self.index.put(key, b"%d-%d" % (seed, chosen.randrange(50)), txn)
        else:
            self.index.delete(key, txn)
        other = b"noise%03d" % chosen.randrange(_NOISE)
        before = self.accounts.get(other, txn)
        if txn.inner.isolation is Isolation.SERIALIZABLE and self.accounts.get(other, txn) != before:
            self.problems.append("a serializable read has seen two things")
        if chosen.random() < 0.5:
            self.accounts.put(other, b"0|0", txn)
        else:
            self.accounts.delete(other, txn)
        if chosen.random() < 0.2:
            txn.abort()
        else:
            txn.commit()

    def _ranges(self, txn: Transaction) -> None:
        for reverse in (False, True):
            first, second = (list(self.index.items(start=b"05", end=b"10", txn=txn, reverse=reverse)) for _ in range(2))
            if txn.inner.isolation is Isolation.SERIALIZABLE and first != second:
                self.problems.append("a serializable range has seen a phantom")
        with self.index.cursor(txn) as cursor:
            cursor.last()
            cursor.skip(-5)
        txn.commit()

    def _read(self, account: int, txn: Transaction | None, *, for_update: bool = False) -> tuple[int, int]:
        value = self.accounts.get(key_of(account), txn, for_update=for_update)
        assert value is not None
        version, balance = value.split(b"|")
        return int(version), int(balance)

    def _maintain(self) -> None:
        self.done["checkpoints"] += 1
        self.env.checkpoint(force=True, minimize=self.done["checkpoints"] % 3 == 0)
        self.env.compress()
        self.env.engine.evict()
        if self.done["checkpoints"] % 10 == 0:
            self.env.create_database("passing").close()
            self.env.remove_database("passing")
