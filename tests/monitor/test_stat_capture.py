"""Statistics in JE's form: what is written is what ``info --stats-file`` reads, and what happened."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import NotFoundError, StorageError
from engine.monitor.stat_capture import COLUMNS, StatCapture, capture_until
from engine.monitor.stat_file import STAT_FILE, read_stat_file
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from tests.support.children import child
from tests.support.groups.nodes import free_ports
from tests.support.harness import run
from tests.support.waiting import eventually

START = 1_795_869_927.284


class Times:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        self.now += 60
        return self.now - 60


def test_rows_hold_what_happened_between_them() -> None:
    storage = MemoryStorage()
    with Environment(storage, EnvironmentConfig(create=True, run_checkpointer=False)) as env:
        capture = StatCapture(storage, Times())
        db = env.create_database("d")
        before = env.stats()
        capture.write(before)
        for number in range(5):
            db.put(b"%d" % number, b"x" * 100)
        env.checkpoint(force=True)
        after = env.stats()
        capture.write(after)
        capture.write(env.stats())
        db.close()
        found = read_stat_file(storage, STAT_FILE)
        assert (found.columns, len(found.rows), found.bad_lines) == (COLUMNS, 3, 0)
        assert [row.time for row in found.rows] == [int(START * 1000) + 60_000 * n for n in range(3)]
        second, third = found.rows[1:]
        assert second.number("I/O:nLogFSyncs") == after.syncs - before.syncs >= 5
        assert second.number("Checkpoints:nCheckpoints") == after.checkpoints - before.checkpoints == 1
        assert second.number("Checkpoints:lastCheckpointId") == after.checkpoints
        assert second.number("Cache:cacheTotalBytes") == after.cache_bytes > 0
        assert second.number("I/O:endOfLog") == after.end_lsn
        # Nothing happened: counters are blank, sizes stay.
        assert "I/O:nLogFSyncs" not in third.values
        assert third.number("I/O:endOfLog") == after.end_lsn


def test_another_file_is_kept_under_another_name() -> None:
    storage = MemoryStorage({STAT_FILE: b"time,Cache:adminBytes\n2026-11-28 12:45:27.284 UTC,1\n"})
    with Environment(storage, EnvironmentConfig(create=True)) as env:
        capture = StatCapture(storage, Times(), most_rows=2)
        for _ in range(25):
            capture.write(env.stats())
    names = [name for name in storage.names() if name.startswith("je.stat")]
    assert names == sorted([STAT_FILE, *(f"je.stat.{number}.csv" for number in range(10))])
    assert len(read_stat_file(storage, STAT_FILE).rows) == 1
    assert [len(read_stat_file(storage, f"je.stat.{number}.csv").rows) for number in range(10)] == [2] * 10


def test_jes_own_file_is_not_written_to() -> None:
    own = b"time,Cache:adminBytes\n2026-11-28 12:45:27.284 UTC,1\n"
    storage = MemoryStorage({STAT_FILE: own})
    with Environment(storage, EnvironmentConfig(create=True)) as env:
        StatCapture(storage, Times()).write(env.stats())
    file = storage.open("je.stat.0.csv")
    assert file.read(0, 1000) == own


class Failing(StatCapture):
    def write(self, _: object) -> None:
        raise StorageError("no space")


def test_a_failure_ends_the_capture_and_a_closed_environment_does_not() -> None:
    with Environment(MemoryStorage(), EnvironmentConfig(create=True)) as env:
        calls = iter((NotFoundError("closed"), None))

        def stats() -> object:
            if (error := next(calls)) is not None:
                raise error
            return env.stats()

        error = capture_until(threading.Event(), Failing(MemoryStorage()), stats, 0.001)  # type: ignore[arg-type]
        assert error is not None
        assert error.what == "no space"
        stopped = threading.Event()
        stopped.set()
        assert capture_until(stopped, Failing(MemoryStorage()), env.stats, 0.001) is None


def test_a_running_node_writes_them(tmp_path: Path) -> None:
    ((host, port),) = free_ports(1)
    env = tmp_path / "n1"
    words = [sys.executable, "-m", "jetool", "node", "run", str(env), "--node", "n1", "--listen", f"{host}:{port}"]
    with child([*words, "--group", "G", "--lead", "--stat-interval", "0.1"]) as running:
        eventually(lambda: (env / STAT_FILE).exists() and (env / STAT_FILE).read_text().count("\n") > 2, wanted=True)
        running.send_signal(signal.SIGTERM)
        assert running.wait() == 0
    result = run("info", "--stats-file", env / STAT_FILE, "--json")
    assert result.code == 0, result.err
    assert b"Cache:cacheTotalBytes" in result.out
    assert read_stat_file(DiskStorage(env), STAT_FILE).bad_lines == 0
