"""Transfers between accounts in several threads while checkpointer, cleaner and evictor run in theirs."""

from __future__ import annotations

import random
import threading
from dataclasses import replace

from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import Environment
from engine.storage.memory import MemoryStorage
from engine.txn.lock_errors import LockConflictError
from engine.txn.txn import Durability

ACCOUNTS, START, THREADS, TRANSFERS = 60, 1000, 4, 150
CONFIG = replace(
    EnvironmentConfig(
        create=True, file_max_bytes=12_000, checkpoint_bytes=40_000, max_embedded_bytes=0, cache_bytes=60_000,
        cleaner_bytes=6_000, cleaner_min_age=1, cleaner_interval_ms=20,
    ).with_background(),
    mark_damage=False,
)  # fmt: skip


def amount(balance: int) -> bytes:
    return b"%012d" % balance + b"." * 60


def transfer(env: Environment, db: Database, source: random.Random) -> None:
    """One transfer; tried again when it met another one."""
    first, second = (b"%04d" % number for number in source.sample(range(ACCOUNTS), 2))
    while True:
        txn = env.begin(durability=Durability.NO_SYNC)
        try:
            balances = [int((db.get(key, txn) or b"")[:12]) for key in (first, second)]
            db.put(first, amount(balances[0] - 5), txn)
            db.put(second, amount(balances[1] + 5), txn)
            if source.random() < 0.1:
                txn.abort()
            else:
                txn.commit()
        except LockConflictError:
            txn.abort()
        else:
            return


def test_no_transfer_is_lost() -> None:
    storage = MemoryStorage()
    failures: list[BaseException] = []
    env = Environment(storage, CONFIG)
    with env.create_database("accounts") as db:
        with env.begin() as txn:
            for number in range(ACCOUNTS):
                db.put(b"%04d" % number, amount(START), txn)

        def work(seed: int) -> None:
            source = random.Random(seed)
            try:
                for _ in range(TRANSFERS):
                    transfer(env, db, source)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert sum(int(data[:12]) for _, data in db.items()) == ACCOUNTS * START
    env.clean_log()
    env.checkpoint(force=True)
    assert env.engine.cleaner is not None
    assert env.engine.cleaner.files_cleaned > 0
    env.close()
    with Environment(storage, replace(CONFIG, create=False)) as env, env.open_database("accounts") as db:
        assert sum(int(data[:12]) for _, data in db.items()) == ACCOUNTS * START
