"""Finished files become an environment: the same records, sound to every check, all or nothing."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.support.tools import needs

needs("Spark")

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import RefusedError, StorageError
from engine.format.entry.file_header import FILE_HEADER_BYTES
from engine.pipeline.load import stage
from engine.pipeline.load.plan import TaskOutput
from engine.pipeline.load.stitch import stitch
from engine.storage.base import WriteFile
from engine.storage.disk import DiskStorage
from engine.storage.overlay import WrappedFile, WrappedStorage
from tests.pipeline.loads import Records, contents, load, session_on, staged
from tests.support.harness import run


@pytest.fixture
def env(tmp_path: Path) -> Path:
    home = tmp_path / "env"
    with Environment(home, EnvironmentConfig(create=True)) as opened:
        opened.create_database("old").put(b"kept", b"as it was")
    return home


def records_of(count: int, sizes: list[int], *, seed: int = 1) -> Records:
    rng = random.Random(seed)
    return [(b"%09d" % rng.randrange(10**9), rng.randbytes(rng.choice(sizes))) for _ in range(count)]


CASES = {
    "none": ([], None),
    "one": ([(b"k", b"v" * 30)], None),
    "empty key": ([(b"", b""), (b"a", b"x" * 17)], None),
    "all keys equal": ([(b"same", b"%d" % number) for number in range(5000)], None),
    "embedded and not": (records_of(4000, [0, 1, 16, 17, 200]), None),
    "prefixes": (records_of(4000, [0, 30]), DatabaseOptions(key_prefixing=True)),
    "four slots a node": (records_of(3000, [5, 50]), DatabaseOptions(max_entries=4)),
    "large": ([(b"k" * (1 << 20), b"v"), (b"big", bytes(50 << 20)), *records_of(300, [10])], None),
    "many files": (records_of(120, [300_000]), None),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("parts", [1, 7])
def test_loaded_records(env: Path, case: str, parts: int) -> None:
    records, options = CASES[case]
    done = load(env, "new", records, parts=parts, options=options)
    expected = dict(records)
    assert sum(part.records for part in done) == len(expected)
    assert contents(env, "new") == expected
    assert contents(env, "old") == {b"kept": b"as it was"}
    assert sorted(p.name for p in env.iterdir() if p.suffix != ".jdb") == ["je.lck"]
    result = run("verify", env, "--full", "--json")
    assert result.code == 0, result.text


def test_a_second_load_and_work_behind_it(env: Path) -> None:
    first, second = records_of(3000, [20]), records_of(3000, [20], seed=2)
    load(env, "a", first, parts=2)
    load(env, "b", second, parts=3)
    with Environment(env, EnvironmentConfig()) as opened, opened.open_database("a") as db:
        for key, _ in first[:100]:
            db.delete(key)
        for key, value in second[:300]:
            db.put(key + b"+", value)
    expected = {key: value for key, value in first if key not in {key for key, _ in first[:100]}}
    assert contents(env, "a") == expected | {key + b"+": value for key, value in second[:300]}
    assert contents(env, "b") == dict(second)
    assert run("verify", env, "--full").code == 0


def test_files_are_numbered_without_gaps_and_linked(env: Path) -> None:
    load(env, "new", records_of(2000, [20_000]), parts=3)
    numbers = sorted(int(path.stem, 16) for path in env.glob("*.jdb"))
    assert numbers == list(range(len(numbers)))
    assert run("dump-log", env, "--reverse", "--limit", "1000000", "--format", "csv").code == 0


def test_a_database_that_is_there_and_empty(env: Path) -> None:
    with Environment(env, EnvironmentConfig()) as opened:
        opened.create_database("new", DatabaseOptions(max_entries=10)).close()
    records = records_of(1000, [30])
    load(env, "new", records)
    assert contents(env, "new") == dict(records)


def test_nobody_writes_meanwhile(env: Path) -> None:
    with session_on(DiskStorage(env), "new") as session:
        done = staged(session.storage, session.target, records_of(10, [30]))
        with pytest.raises(RefusedError):
            Environment(env, EnvironmentConfig())
        stitch(session, done)
        with pytest.raises(RefusedError):
            Environment(env, EnvironmentConfig())
    assert len(contents(env, "new")) == 10


class Dying(WrappedStorage):
    """A disk on which nothing works any more after so many renames, or writes of the last step."""

    def __init__(self, base: DiskStorage, renames: int) -> None:
        super().__init__(base)
        self.left = renames

    def rename(self, old: str, new: str) -> None:
        if not self.left:
            raise StorageError("the power has failed")
        self.left -= 1
        super().rename(old, new)


@pytest.mark.parametrize("renames", range(5))
def test_death_between_two_renames(env: Path, tmp_path: Path, renames: int) -> None:
    """The environment opens as it was, before and after the next load has cleaned up."""
    storage = DiskStorage(env)
    before = {path.name: path.read_bytes() for path in env.glob("*.jdb")}
    with session_on(storage, "new") as session:
        done = staged(storage, session.target, records_of(100, [300_000]), parts=2)
        assert sum(len(part.files) for part in done) == 4
        session.storage = Dying(storage, renames)
        with pytest.raises(StorageError, match="power"):
            stitch(session, done)
        assert session.env.engine.stopped
    found = {path.name for path in env.glob("*.jdb")}
    assert len(found) == len(before) + renames
    copy = tmp_path / "opened"
    shutil.copytree(env, copy)
    for again in range(2):
        with Environment(copy, EnvironmentConfig()) as opened:
            assert opened.database_names() == ["old"], again
            opened.open_database("old").put(b"more", b"%d" % again)
    assert contents(copy, "old") == {b"kept": b"as it was", b"more": b"1"}
    # What was written after the files of the dead load stays.
    stage.clean(DiskStorage(copy))
    assert contents(copy, "old") == {b"kept": b"as it was", b"more": b"1"}
    assert stage.clean(storage)
    assert {path.name: path.read_bytes() for path in env.glob("*.jdb")} == before
    records = records_of(500, [40])
    load(env, "new", records, parts=2)
    assert contents(env, "new") == dict(records)


class Watched(WrappedStorage):
    """A disk that notes syncs of log files and renames."""

    def __init__(self, base: DiskStorage) -> None:
        super().__init__(base)
        self.order: list[tuple[str, str]] = []

    def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
        return _WatchedFile(self.order, self._base.open_rw(path, create=create))

    def rename(self, old: str, new: str) -> None:
        self.order.append(("rename", new))
        super().rename(old, new)


class _WatchedFile(WrappedFile):
    def __init__(self, order: list[tuple[str, str]], file: WriteFile) -> None:
        super().__init__(file)
        self._order = order

    def sync(self) -> None:
        self._order.append(("sync", self.path))
        self._file.sync()


def test_the_last_file_is_durable_before_others_follow_it(env: Path) -> None:
    """R-LOG-13: a process that was killed may have left it without a sync, and recovery has nothing to write."""
    with session_on(DiskStorage(env), "new") as session:
        done = staged(session.storage, session.target, records_of(100, [40]))
        session.storage = watched = Watched(DiskStorage(env))
        stitch(session, done)
    renames = [at for at, (kind, _) in enumerate(watched.order) if kind == "rename"]
    assert watched.order.index(("sync", "00000000.jdb")) < renames[0]
    for _, name in (watched.order[at] for at in renames):
        assert (env / name).stat().st_size > FILE_HEADER_BYTES


def test_what_a_dead_load_leaves_is_ignored_and_removed(env: Path) -> None:
    storage = DiskStorage(env)
    with session_on(storage, "new") as session:
        staged(storage, session.target, records_of(100, [40]))
    assert run("verify", env, "--full").code == 0
    assert contents(env, "old") == {b"kept": b"as it was"}
    assert stage.clean(storage)
    assert not (env / stage.DIRECTORY).exists()
    assert not stage.clean(storage)


def test_an_orphan_of_a_task_that_was_run_again_is_left_out(env: Path) -> None:
    storage = DiskStorage(env)
    records = records_of(200, [40])
    with session_on(storage, "new") as session:
        lost = staged(storage, session.target, records)
        done = staged(storage, session.target, records)
        assert files(lost) == [1]
        assert files(done) == [2]
        stitch(session, done)
        stage.clean(storage)
    assert contents(env, "new") == dict(records)
    assert sorted(path.name for path in env.glob("*.jdb")) == ["00000000.jdb", "00000002.jdb", "00000003.jdb"]


def files(parts: list[TaskOutput]) -> list[int]:
    return [file.number for part in parts for file in part.files]
