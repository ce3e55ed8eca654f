"""Failing writes, full disks, large values, and a golden log of a fixed workload."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError, RefusedError, StorageError
from engine.format.lsn import format_lsn
from engine.storage.memory import MemoryStorage
from tests.support.damage.faulty_storage import Effect, FaultyStorage, Rule
from tests.support.environments.workload import SMALL, Workload, contents, open_env
from tests.support.logs.entries import entries

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "engine" / "workload.txt"


@pytest.mark.parametrize("operation", ["write", "sync"])
@pytest.mark.parametrize("effect", [Effect.FAIL, Effect.SHORTEN])
@pytest.mark.parametrize("nth", [3, 9, 20, 35])
def test_a_failing_disk_loses_nothing_that_was_committed(operation: str, effect: Effect, nth: int) -> None:
    """As a full disk: the operation fails, the environment is invalid, and opening it again recovers."""
    inner = MemoryStorage()
    storage = FaultyStorage(inner, [Rule(operation, effect, nth, "*.jdb")])
    workload = Workload(3, keys=30)
    with pytest.raises(JetoolError):
        run(workload, storage)
    allowed = [workload.committed] + ([workload.in_flight] if workload.in_flight is not None else [])
    left = MemoryStorage({path: data for path, data in inner.contents().items() if path.endswith(".jdb")})
    with open_env(left) as again:
        assert contents(again) in allowed


def run(workload: Workload, storage: FaultyStorage) -> None:
    env = open_env(storage)
    try:
        workload.start(env)
        workload.run(env, 80)
    except StorageError:
        with pytest.raises(RefusedError, match="invalid"):
            env.sync()
        env.close()
        raise


def test_reads_that_fail_say_where() -> None:
    inner = MemoryStorage()
    with Environment(inner, EnvironmentConfig(create=True)) as env, env.create_database("db") as db:
        db.put(b"k", b"v" * 100)
    storage = FaultyStorage(inner, [Rule("read", Effect.FAIL, 2, "*.jdb")])
    with pytest.raises(StorageError, match=r"00000000\.jdb"):
        Environment(storage, EnvironmentConfig(read_only=True))


def test_large_and_empty_values() -> None:
    """0 bytes to several files' worth; an entry larger than a file stands alone."""
    storage = MemoryStorage()
    env = Environment(storage, EnvironmentConfig(create=True, file_max_bytes=1_000_000))
    db = env.create_database("db")
    sizes = (0, 1, 16, 17, 4096, 999_990, 3_000_000)
    for size in sizes:
        db.put(b"%09d" % size, b"x" * size)
    db.put(b"", b"empty key")
    db.put(b"k" * 100_000, b"long key")
    env.engine.crash()
    with Environment(storage) as again:
        found = dict(again.open_database("db").items())
    assert {key: len(value) for key, value in found.items() if len(key) == 9} == {b"%09d" % n: n for n in sizes}
    assert found[b""] == b"empty key"
    assert found[b"k" * 100_000] == b"long key"


def test_two_writers_exclude_each_other(tmp_path: Path) -> None:
    """R-LOG-28, within one process and against the lock that another one holds."""
    env = Environment(tmp_path, EnvironmentConfig(create=True))
    with pytest.raises(RefusedError):
        Environment(tmp_path)
    with Environment(tmp_path, EnvironmentConfig(read_only=True)) as reader:
        assert reader.database_names() == []
    env.close()
    Environment(tmp_path).close()


def test_readers_leave_no_trace(tmp_path: Path) -> None:
    with Environment(tmp_path, EnvironmentConfig(create=True)) as env, env.create_database("db") as db:
        db.put(b"k", b"v")
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()}
    (tmp_path / "je.lck").unlink()
    before.pop("je.lck")
    with Environment(tmp_path, EnvironmentConfig(read_only=True)) as env:
        assert env.open_database("db").get(b"k") == b"v"
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()} == before


def test_log_of_a_fixed_workload_is_the_golden_one() -> None:
    """Every byte that the engine writes for one workload; JETOOL_REGENERATE=1 makes the file anew."""
    from dataclasses import replace

    storage = MemoryStorage()
    env = Environment(storage, replace(SMALL, clock=lambda: 1_700_000_000_000))
    workload = Workload(42, keys=25)
    workload.start(env)
    workload.run(env, 60)
    lines = [f"{format_lsn(e.lsn)} {e.type_name} {e.provisional.value} {e.item_size}" for e in entries(env)]
    env.close()
    data = b"".join(data for path, data in sorted(storage.contents().items()) if path.endswith(".jdb"))
    lines.append(f"sha256 {hashlib.sha256(data).hexdigest()}")
    text = "\n".join(lines) + "\n"
    if os.environ.get("JETOOL_REGENERATE"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
