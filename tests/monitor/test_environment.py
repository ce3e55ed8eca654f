"""Samples of an environment beside its writer: what they count, what they read, and what they survive."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import cast

import pytest

from engine.format.entry_types import COMMIT
from engine.format.lsn import file_of
from engine.log.files import LogFiles, list_log_files
from engine.log.scan import scan_log
from engine.monitor.appended_log import AppendedLog, bytes_between
from engine.monitor.environment import EnvironmentMeter
from engine.monitor.sample import NodeSample
from engine.rescue.space import survey_space
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from tests.support import corpus
from tests.support.environments.workload import Workload, open_env


def environments() -> Iterator[Path]:
    """Every environment of the corpus that JE wrote and that has a log."""
    for place in sorted((corpus.path() / "je").rglob("env")):
        if any(place.glob("*.jdb")):
            yield place


def commits_in(storage: Storage, files: LogFiles) -> int:
    return sum(1 for _ in scan_log(storage, files, types=frozenset({COMMIT}), past_end=False).good_entries())


def meter_of(storage: Storage) -> EnvironmentMeter:
    """Its clock stands still, and a second passes from one sample to the next."""
    seconds = count()
    return EnvironmentMeter(storage, clock=lambda: 1_800_000_000_000, timer=lambda: float(next(seconds)))


def one(meter: EnvironmentMeter) -> NodeSample:
    (sample,) = meter.sample()
    return sample


@pytest.mark.parametrize("seed", range(4))
def test_counts_beside_a_writer(seed: int) -> None:
    """Files flip, checkpoints and aborts happen between the samples; no commit is counted twice or left out."""
    storage = MemoryStorage()
    work = Workload(seed)
    with open_env(storage) as env:
        work.start(env)
        env.sync()
        meter = meter_of(storage)
        first = one(meter)
        before = commits_in(storage, list_log_files(storage))
        assert (first.state, first.commits, first.commit_rate, first.append_rate) == ("open", 0, None, None)
        for _ in range(12):
            end, seen = first.end_of_log, first.commits or 0
            work.run(env, 15)
            env.sync()
            files = list_log_files(storage)
            sample = one(meter)
            assert sample.commits == commits_in(storage, files) - before
            assert sample.commit_rate == sample.commits - seen
            assert sample.end_of_log == env.end_lsn
            assert sample.append_rate == bytes_between(files, end, sample.end_of_log)
            assert (sample.log_files, sample.log_bytes) == (
                len(files.files), sum(file.size_bytes for file in files.files),
            )  # fmt: skip
            assert sample.problem is None
            first = sample
        assert file_of(first.end_of_log) > 3
    assert one(meter).state == "closed"


def test_a_first_reading_goes_back_to_the_checkpoint() -> None:
    """In pieces of any size it gives what one pass over the log gives."""
    storage = MemoryStorage()
    work = Workload(7)
    with open_env(storage) as env:
        work.start(env)
        work.run(env, 200)
    files = list_log_files(storage)
    whole = AppendedLog(storage, piece_bytes=1 << 30)
    expected = whole.read(files)
    assert expected.checkpoint is not None
    for piece_bytes in (64, 200, 1000, 6000):
        progress = AppendedLog(storage, piece_bytes=piece_bytes)
        found = progress.read(files)
        assert progress.end == whole.end
        assert found.checkpoint == expected.checkpoint
        assert found.vlsn == expected.vlsn
        # The interval of the checkpoint was read, and hardly more.
        assert set(found.summaries) <= set(expected.summaries)
        assert found.damages == 0


def test_pieces_that_cover_the_log_count_everything() -> None:
    storage = MemoryStorage()
    work = Workload(3)
    with open_env(storage) as env:
        work.start(env)
        work.run(env, 100)
        env.sync()
        content = storage.contents()
    # Without its last checkpoints, a crash leaves a log that is read back to its start.
    files = {path: data for path, data in content.items() if path.endswith(".jdb")}
    crashed = MemoryStorage(files)
    listed = list_log_files(crashed)
    for piece_bytes in (64, 333, 5000):
        progress = AppendedLog(crashed, piece_bytes=piece_bytes)
        found = progress.read(listed)
        start = 0 if found.checkpoint is None else found.checkpoint.record.ckpt_start_lsn
        ends = frozenset({COMMIT})
        scan = scan_log(crashed, listed, types=ends, start=start, past_end=False)
        assert found.commits >= sum(1 for _ in scan.good_entries())


def test_only_what_was_appended_is_read() -> None:
    """The second sample reads a few hundred bytes of a log of megabytes."""
    storage = MemoryStorage()
    with open_env(storage, file_max_bytes=10_000_000) as env:
        with env.create_database("data") as db:
            for number in range(3000):
                db.put(b"%06d" % number, b"x" * 500)
        env.checkpoint(force=True)
        env.sync()
        counting = CountingStorage(storage)
        meter = meter_of(cast(Storage, counting))
        one(meter)
        counting.bytes = 0
        idle = one(meter)
        assert counting.bytes < 4000
        with env.open_database("data") as db:
            db.put(b"new", b"y")
        env.sync()
        counting.bytes = 0
        busy = one(meter)
        assert idle.commits == 0
        assert busy.commits == 1
        assert counting.bytes < 100_000


class CountingStorage:
    """A storage that counts the bytes that are read, and refuses everything but reading."""

    def __init__(self, inner: MemoryStorage) -> None:
        self._inner = inner
        self.bytes = 0

    def __getattr__(self, name: str) -> object:
        assert name in ("root", "names", "stat", "free_bytes", "lock_holder"), name
        return getattr(self._inner, name)

    def open(self, path: str) -> object:
        return _CountingFile(self._inner.open(path), self)


class _CountingFile:
    def __init__(self, inner: object, counter: CountingStorage) -> None:
        self._inner = inner
        self._counter = counter

    def __getattr__(self, name: str) -> object:
        assert name in ("size", "close", "path"), name
        return getattr(self._inner, name)

    def read(self, offset: int, length: int) -> bytes:
        data: bytes = self._inner.read(offset, length)  # type: ignore[attr-defined]
        self._counter.bytes += len(data)
        return data


def test_an_entry_that_is_being_written() -> None:
    """Half an entry is no damage, and is counted once it is whole."""
    storage = MemoryStorage()
    with open_env(storage, file_max_bytes=1_000_000) as env, env.create_database("data") as db:
        db.put(b"a", b"1" * 300)
        env.sync()
        short = storage.contents()
        db.put(b"b", b"2" * 300)
        env.sync()
        long = storage.contents()
    name = "00000000.jdb"
    meter_storage = MemoryStorage({name: short[name]})
    meter = meter_of(meter_storage)
    first = one(meter)
    for cut in range(len(short[name]) + 1, len(long[name]), 7):
        meter_storage.open_rw(name).write(0, long[name][:cut])
        sample = one(meter)
        assert sample.problem is None
        assert (sample.commits or 0) <= 1
    meter_storage.open_rw(name).write(0, long[name])
    assert one(meter).commits == 1
    assert one(meter).end_of_log > first.end_of_log


def test_utilization_is_that_of_the_cleaner() -> None:
    """After a clean close nothing has been counted since the checkpoint, and both figures agree."""
    compared = 0
    for place in environments():
        storage = DiskStorage(str(place))
        sample = one(meter_of(storage))
        report = survey_space(storage)
        # Recovery counts what was logged after the last checkpoint too.
        if report.problem or (sample.recovery_bytes or 0) * 20 > (sample.log_bytes or 0):
            continue
        counted = [file for file in report.files if file.counted and file.obsolete is not None]
        total = sum(file.counted or 0 for file in counted)
        if total and sample.utilization is not None:
            used = 100 * (total - sum(file.obsolete or 0 for file in counted)) / total
            assert abs(sample.utilization - used) <= 4, place
            compared += 1
    assert compared > 3


def test_what_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    meter = EnvironmentMeter(DiskStorage(str(tmp_path / "gone")))
    sample = one(meter)
    assert (sample.state, sample.end_of_log) == (None, -1)
    assert sample.problem is not None
    assert "no such directory" in sample.problem


def test_a_log_that_was_replaced() -> None:
    """A shorter log is another one: counting starts again."""
    storage = MemoryStorage()
    with open_env(storage) as env:
        work = Workload(1)
        work.start(env)
        work.run(env, 60)
        env.sync()
        meter = meter_of(storage)
        one(meter)
        for name in sorted(storage.names()):
            if name.endswith(".jdb") and name > "00000001.jdb":
                storage.remove(name)
        sample = one(meter)
        assert (sample.commits, sample.commit_rate) == (0, None)
        assert file_of(sample.end_of_log) <= 1


def test_real_environments() -> None:
    """Every environment of the corpus, damaged ones too; nothing in them is changed, and no lock file is made."""
    seen = 0
    for place in environments():
        before = sorted(path.name for path in place.iterdir())
        storage = DiskStorage(str(place))
        meter = meter_of(storage)
        first, second = one(meter), one(meter)
        if first.problem is None:
            assert (second.commits, second.appended_bytes, second.append_rate) == (0, 0, 0)
            assert second.end_of_log == first.end_of_log
            seen += 1
        assert sorted(path.name for path in place.iterdir()) == before
    assert seen > 10


def test_a_cleaner_that_deletes_files() -> None:
    storage = MemoryStorage()
    with open_env(storage, cleaner_min_utilization=80) as env:
        work = Workload(5)
        work.start(env)
        meter = meter_of(storage)
        for _ in range(6):
            work.run(env, 40)
            env.clean_log()
            env.checkpoint(force=True)
            sample = one(meter)
            assert sample.problem is None
            assert sample.utilization is not None
        assert len(list_log_files(storage).files) < file_of(sample.end_of_log)
