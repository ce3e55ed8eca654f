"""Threads of one process, and readers in others: histories are serialisable, no lock is left, readers see commits."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError
from engine.storage.memory import MemoryStorage
from engine.txn.txn import Durability
from tests.db.bank import Bank
from tests.support.children import child


def check_bank(seconds: float, victims: int) -> None:
    bank = Bank(MemoryStorage())
    cleaner = bank.env.engine.cleaner
    assert cleaner is not None

    def enough() -> bool:
        done = bank.done["transfers"] > 40 and bank.done["victims"] > victims
        return done and cleaner.stats().lns_migrated > 0

    bank.run(8, seconds, enough)
    assert bank.check() == []
    assert enough(), bank.done
    expected = [list(db.items()) for db in (bank.accounts, bank.index)]
    bank.env.sync()
    bank.env.engine.crash()
    with Environment(bank.env.engine.storage) as again:
        assert [list(again.open_database(name).items()) for name in ("accounts", "index")] == expected


def test_eight_threads_leave_a_serialisable_history() -> None:
    check_bank(1, 0)


@pytest.mark.slow
def test_eight_threads_for_a_minute() -> None:
    check_bank(60, 100)


WRITER = """
import sys
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.txn.txn import Durability
env = Environment(sys.argv[1], EnvironmentConfig(create=True, file_max_bytes=20_000, node_max_entries=8,
                                                 checkpoint_bytes=30_000))
db = env.create_database("db")
print("ready", flush=True)
number = 0
while True:
    with env.begin(durability=Durability.WRITE_NO_SYNC) as txn:
        for key in range(4):
            db.put(b"%d/%06d" % (key, number % 500), b"%d" % number * 5, txn)
    print(number, flush=True)
    number += 1
"""


def test_readers_beside_a_writer_and_its_death(tmp_path: Path) -> None:
    """Each read-only open sees a prefix of the commits, whole; after SIGKILL nothing that returned is missing."""
    home = tmp_path / "env"
    with child([sys.executable, "-c", WRITER, str(home)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        seen = 0
        for _ in range(15):
            time.sleep(0.02)
            newest = newest_of(home)
            assert newest >= seen - 1, "a reader has seen less than the one before"
            seen = max(seen, newest)
        with pytest.raises(JetoolError) as refused:
            Environment(home, EnvironmentConfig())
        assert refused.value.exit_code == 3
        writer.kill()
        last = int(writer.stdout.read().splitlines()[-1])
    assert newest_of(home) >= last
    with Environment(home) as env, env.open_database("db") as db:
        assert db.put(b"after", b"death")
        with env.begin(durability=Durability.SYNC) as txn:
            assert db.delete(b"after", txn) == 1
    assert newest_of(home) >= last


def newest_of(home: Path) -> int:
    """The newest commit that a reader sees; the four records of each are there or not, together."""
    with Environment(home, EnvironmentConfig(read_only=True)) as env, env.open_database("db") as db:
        records = dict(db.items())
    newest = -1
    for number in range(500):
        values = {records.get(b"%d/%06d" % (key, number)) for key in range(4)}
        assert len(values) == 1, "half a transaction"
        value = values.pop()
        if value is not None:
            newest = max(newest, int(value[: len(value) // 5]))
    return newest
