"""Group commit (R-LOG-25) and the write queue (R-LOG-22): who waits for whom, and what is written when."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from engine.errors import StorageError
from engine.log.access import LogAccess
from engine.log.group_commit import GroupCommit
from engine.log.writer import LogWriter
from engine.storage.base import WriteFile
from engine.storage.memory import MemoryStorage
from engine.storage.overlay import WrappedFile, WrappedStorage
from tests.support.waiting import PATIENCE_S

TRACE = 24
SECONDS = PATIENCE_S


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another thread does."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "nothing happens"
        time.sleep(0.001)


def in_threads(count: int, work: Callable[[int], None]) -> list[threading.Thread]:
    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    return threads


def join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()


def test_a_leader_waits_until_its_group_is_complete() -> None:
    synced = []
    group = GroupCommit(lambda: synced.append(1) or 100)  # type: ignore[func-returns-value]
    group.interval_ms, group.threshold = 60_000, 4
    join(in_threads(4, lambda number: group.sync(number + 1)))
    assert (len(synced), group.syncs, group.requests) == (1, 1, 4)


def test_a_leader_waits_no_longer_than_the_interval() -> None:
    group = GroupCommit(lambda: 100)
    group.interval_ms, group.threshold = 30, 4
    start = time.monotonic()
    group.sync(5)
    assert 0.03 <= time.monotonic() - start < SECONDS
    assert group.syncs == 1


@pytest.mark.parametrize(("interval_ms", "threshold"), [(0, 5), (60_000, 0)])
def test_one_of_the_two_alone_is_nothing(interval_ms: int, threshold: int) -> None:
    group = GroupCommit(lambda: 100)
    group.interval_ms, group.threshold = interval_ms, threshold
    group.sync(5)
    assert group.syncs == 1


def test_who_has_waited_too_long_syncs_itself() -> None:
    stuck, entered = threading.Event(), threading.Event()
    calls = []

    def flush_and_sync() -> int:
        calls.append(1)
        if len(calls) == 1:
            entered.set()
            stuck.wait(SECONDS)
        return 100

    group = GroupCommit(flush_and_sync)
    group.timeout_ms = 20
    threads = in_threads(1, lambda _: group.sync(10))
    entered.wait(SECONDS)
    group.sync(20)
    assert len(calls) == 2
    stuck.set()
    join(threads)
    # The leader gives its place up.
    group.sync(200)
    assert len(calls) == 3


def test_a_failed_sync_is_raised_by_who_led_and_tried_again_by_the_next() -> None:
    calls = []

    def flush_and_sync() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise StorageError("no")
        return 100

    group = GroupCommit(flush_and_sync)
    with pytest.raises(StorageError):
        group.sync(10)
    group.sync(10)
    group.sync(10)
    assert len(calls) == 2


class SlowSync(WrappedStorage):
    """A storage whose syncs wait until they are let go, while ``hold`` is set, and then fail if they are to."""

    def __init__(self, base: MemoryStorage) -> None:
        super().__init__(base)
        self.hold = self.fails = False
        self.open_files = 0
        self.inside = threading.Event()
        self.go = threading.Event()

    def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
        self.open_files += 1
        return _SlowFile(self, self._base.open_rw(path, create=create))


class _SlowFile(WrappedFile):
    def __init__(self, storage: SlowSync, file: WriteFile) -> None:
        super().__init__(file)
        self._storage = storage

    def sync(self) -> None:
        if self._storage.hold:
            self._storage.inside.set()
            assert self._storage.go.wait(SECONDS)
            if self._storage.fails:
                raise StorageError("injected")
        self._file.sync()

    def close(self) -> None:
        self._storage.open_files -= 1
        self._file.close()


def writer_on(storage: SlowSync, queue_bytes: int) -> LogWriter:
    return LogWriter(LogAccess(storage, ()), 0, -1, buffer_bytes=200, queue_bytes=queue_bytes)


def syncing(storage: SlowSync, writer: LogWriter) -> list[threading.Thread]:
    """A thread that is inside fsync."""
    # The first write of a file is synced under the latch.
    writer.log(TRACE, b"x" * 50)
    writer.flush(sync=False)
    writer.log(TRACE, b"x" * 50)
    storage.hold = True
    threads = in_threads(1, lambda _: writer.flush(sync=True))
    assert storage.inside.wait(SECONDS)
    return threads


def test_during_an_fsync_entries_are_kept_back_and_can_be_read() -> None:
    storage = SlowSync(MemoryStorage())
    writer = writer_on(storage, 4096)
    threads = syncing(storage, writer)
    before = writer.writes
    lsns = [writer.log(TRACE, b"%02d" % i + b"." * 48) for i in range(20)]
    assert writer.writes == before
    for i, lsn in enumerate(lsns):
        found = writer.find(0, lsn)
        assert found is not None
        assert found[14:16] == b"%02d" % i
    storage.go.set()
    join(threads)
    assert writer.writes == before + 1
    assert writer.find(0, lsns[0]) is None


def test_a_full_queue_is_written_by_who_fills_it() -> None:
    storage = SlowSync(MemoryStorage())
    writer = writer_on(storage, 500)
    threads = syncing(storage, writer)
    before = writer.writes
    for _ in range(20):
        writer.log(TRACE, b"." * 50)
    assert writer.writes == before + 1
    storage.go.set()
    join(threads)


def test_without_a_queue_a_full_buffer_is_written_at_once() -> None:
    storage = SlowSync(MemoryStorage())
    writer = writer_on(storage, 0)
    threads = syncing(storage, writer)
    before = writer.writes
    for _ in range(20):
        writer.log(TRACE, b"." * 50)
    assert writer.writes > before + 2
    storage.go.set()
    join(threads)


def test_who_needs_the_bytes_in_the_file_gets_them_there() -> None:
    storage = SlowSync(MemoryStorage())
    writer = writer_on(storage, 4096)
    threads = syncing(storage, writer)
    lsn = writer.log(TRACE, b"." * 50)
    writer.flush(sync=False)
    assert writer.find(0, lsn) is None
    storage.go.set()
    join(threads)


@pytest.mark.parametrize("fails", [False, True])
def test_an_fsync_that_a_flip_overtakes(fails: bool) -> None:
    """The flip's own fsync may succeed because the other was told of the failure: systems tell it once (R-LOG-7)."""
    storage = SlowSync(MemoryStorage())
    writer = LogWriter(LogAccess(storage, ()), 0, -1, file_max=400, buffer_bytes=200)
    heard: list[BaseException] = []

    def commit(_: int) -> None:
        try:
            writer.flush(sync=True)
        except StorageError as error:
            heard.append(error)

    writer.log(TRACE, b"x" * 50)
    writer.flush(sync=False)
    writer.log(TRACE, b"x" * 50)
    storage.hold = True
    threads = in_threads(1, commit)
    assert storage.inside.wait(SECONDS)
    storage.hold, storage.fails = False, fails
    while writer.flips == 0:
        writer.log(TRACE, b"x" * 50)
    assert storage.open_files == 1, "nobody closes a file that is being synced"
    storage.hold = True
    storage.go.set()
    join(threads)
    assert storage.open_files == 0
    assert [str(error) for error in heard] == ["injected"] * fails
    assert writer.failed is fails
