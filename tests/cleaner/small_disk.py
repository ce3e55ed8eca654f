"""A day of writes on a small disk: the cleaner keeps up, through kills, and every record is the one that was written.

A child process writes transactions of four changes, at random keys of a database and, one after the other, into a
journal that is removed when the next one has begun, as frontends do; the number of the transaction is a record, too.
What transaction *n* changes follows from *n* alone. The parent kills the child at random, counts what the directory
takes, opens the environment by the next child, and at the end compares every record with what the last transaction that
is there, and all before it, have written. It is at least the last one that the child has acknowledged.

Half a million transactions, two million changes, in 64 MB (50 a second for 12 hours), on a disk of that size:

    mount -t tmpfs -o size=64m none /mnt/small
    python -m tests.cleaner.small_disk 540000 /mnt/small/env
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import Environment
from engine.txn.txn import Durability
from tests.support.harness import environment
from tests.support.waiting import PATIENCE_S

KEYS: Final = 20_000
CHANGES: Final = 4
# Transactions of one journal, and journals that are kept.
JOURNAL: Final = 5_000
KEPT: Final = 2
COUNTER: Final = b"counter"
REPORT_EVERY: Final = 500
CONFIG: Final = EnvironmentConfig(
    create=True, file_max_bytes=1_000_000, checkpoint_bytes=2_000_000, cache_bytes=16 << 20, max_embedded_bytes=0,
    cleaner_interval_ms=500,
).with_background()  # fmt: skip


class Change(NamedTuple):
    """A change of a record: ``size`` of its new value, 0 for a deletion."""

    key: int
    size: int


def changes_of(number: int) -> list[Change]:
    """What a transaction changes."""
    chosen = random.Random(number)
    return [
        Change(int(KEYS * chosen.random() ** 2), 0 if chosen.random() < 0.1 else chosen.randrange(50, 300))
        for _ in range(CHANGES)
    ]


def value_of(number: int, change: Change) -> bytes:
    """The value that a transaction writes."""
    text = b"%d:%d:" % (number, change.key)
    return text + b"v" * (change.size - len(text))


def key_of(number: int) -> bytes:
    """A number as a key."""
    return number.to_bytes(8, "big")


def _journals(env: Environment) -> list[int]:
    return sorted(int(name) for name in env.database_names() if name.isdigit())


def write(home: str, last: int) -> None:
    """Write up to a transaction; every so often print which one is acknowledged."""
    with Environment(home, CONFIG) as env:
        names = env.database_names()
        data = env.open_database("data") if "data" in names else env.create_database("data")
        done = int(data.get(COUNTER) or b"0")
        journal: Database | None = None
        print("open", done, flush=True)
        for number in range(done + 1, last + 1):
            first = number - number % JOURNAL
            if journal is None or number % JOURNAL == 0:
                if journal is not None:
                    journal.close()
                known = _journals(env)
                journal = env.open_database(str(first)) if first in known else env.create_database(str(first))
                for old in known:
                    if old <= first - KEPT * JOURNAL:
                        env.remove_database(str(old))
            with env.begin(durability=Durability.WRITE_NO_SYNC) as txn:
                for change in changes_of(number):
                    if change.size:
                        data.put(key_of(change.key), value_of(number, change), txn)
                    else:
                        data.delete(key_of(change.key), txn)
                journal.put(key_of(number), value_of(number, Change(0, 150)), txn)
                data.put(COUNTER, b"%d" % number, txn)
            if number % REPORT_EVERY == 0:
                print("done", number, flush=True)
        if journal is not None:
            journal.close()
        print("done", last, flush=True)


def expected(last: int) -> dict[bytes, bytes]:
    """The records after a transaction."""
    found: dict[bytes, bytes] = {}
    for number in range(1, last + 1):
        for change in changes_of(number):
            if change.size:
                found[key_of(change.key)] = value_of(number, change)
            else:
                found.pop(key_of(change.key), None)
    return {**found, COUNTER: b"%d" % last}


def check(home: str, acknowledged: int) -> Iterator[str]:
    """Everything that is not as it must be."""
    with Environment(home, EnvironmentConfig(read_only=True)) as env:
        found = dict(env.open_database("data").items())
        last = int(found.get(COUNTER, b"0"))
        if last < acknowledged:
            yield f"transaction {last} is the last one, and {acknowledged} was acknowledged"
        wanted = expected(last)
        for key in sorted(found.keys() | wanted.keys()):
            if found.get(key) != wanted.get(key):
                yield f"record {key.hex()} is {found.get(key)!r}, not {wanted.get(key)!r}"
        numbers = [
            int.from_bytes(key, "big") for first in _journals(env) for key, _ in env.open_database(str(first)).items()
        ]
        if numbers != list(range(max(numbers[0], 1), last + 1)) or len(numbers) < min(last, JOURNAL):
            yield f"the journals hold {len(numbers)} of {numbers[0]}..{numbers[-1]}, not all up to {last}"


class Outcome(NamedTuple):
    """How a run went: kills, the most bytes that the directory took, what is wrong."""

    kills: int
    most_bytes: int
    problems: list[str]


def run(home: Path, last: int, kill_every: int, seed: int = 1) -> Outcome:
    """Write up to a transaction, with a kill about every so many."""
    chosen, acknowledged, kills, most = random.Random(seed), 0, 0, 0
    while acknowledged < last:
        command = [sys.executable, "-m", "tests.cleaner.small_disk", "write", str(home), str(last)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        assert child.stdout is not None
        assert child.stderr is not None
        kill_at = acknowledged + chosen.randrange(1, 2 * kill_every)
        for line in child.stdout:
            word, number = line.split()
            acknowledged = max(acknowledged, int(number))
            most = max(most, sum(one.stat().st_size for one in _files(home)))
            if word == "done" and kill_at <= acknowledged < last:
                child.send_signal(signal.SIGKILL)
                kills += 1
                break
        rest, problem = child.communicate(timeout=PATIENCE_S)
        for line in rest.splitlines():
            if line.startswith("done "):
                acknowledged = max(acknowledged, int(line.split()[1]))
        if child.returncode not in (0, -signal.SIGKILL):
            return Outcome(kills, most, [problem[-2000:]])
    return Outcome(kills, most, list(check(str(home), acknowledged)))


def _files(home: Path) -> list[Path]:
    # A file may be gone before it is asked for its size: the cleaner runs.
    return [one for one in home.glob("*.jdb") if one.exists()]


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], int(sys.argv[3]))
    else:
        outcome = run(Path(sys.argv[2]), int(sys.argv[1]), kill_every=20_000)
        print(f"{outcome.kills} kills, {outcome.most_bytes:,} bytes at most")
        print("\n".join(outcome.problems[:20]) or "every record is right")
        sys.exit(1 if outcome.problems else 0)
