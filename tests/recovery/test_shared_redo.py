"""Redo with a process that reads ahead comes to what redo alone comes to, also when that process dies on the way."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError, StorageError
from engine.format.versions import WRITTEN_VERSION
from engine.log.files import list_log_files
from engine.storage.base import ReadFile, Storage
from engine.storage.memory import MemoryStorage
from engine.storage.overlay import WrappedStorage
from engine.storage.scratch import ScratchFile
from engine.workers.shared_work import SharedWork, ValueWorker
from tests.recovery.test_progress import Steps
from tests.recovery.test_small_cache import crashed
from tests.support.environments.workload import TINY_CACHE, State, contents
from tests.support.logs.golden_logs import offsets_and_sizes
from tests.support.samples import part

NOW_MS = 1_800_000_000_000


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever threads other tests have left in this process."""
    monkeypatch.setattr("engine.recovery.redo_pass.can_fork", lambda: True)
    monkeypatch.setattr("engine.recovery.manager.can_fork", lambda: True)


@pytest.fixture(scope="module")
def case() -> tuple[MemoryStorage, State]:
    """Many small files after the last checkpoint, with all kinds of records."""
    return crashed(60, seed=5, records=600)


def recovered(storage: Storage, cache_bytes: int, read_ahead_bytes: int) -> tuple[dict[str, int], State, list[object]]:
    """The sizes of log files afterwards, the records, and what each pass has counted."""
    config = EnvironmentConfig(
        cache_bytes=cache_bytes, checkpoint_bytes=0, read_ahead_bytes=read_ahead_bytes, clock=lambda: NOW_MS
    )
    steps = Steps()
    with Environment(storage, config, steps) as env:
        result = env.engine.recovery
        assert result is not None
        found = contents(env), [one.fields() for one in result.passes]
    files = {file.path: file.size_bytes for file in list_log_files(storage).files}
    return files, found[0], [*found[1], steps.heard["REDO_DATA_RECORDS"][-1]]


@pytest.mark.parametrize("cache_bytes", [TINY_CACHE, 40_000, 64 << 20])
def test_the_same_log_comes_of_it(
    case: tuple[MemoryStorage, State], cache_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records, counts, the size of the log with its closing checkpoint."""
    forks: list[int] = []
    fork = os.fork

    def counted() -> int:
        forks.append(os.getpid())
        return fork()

    monkeypatch.setattr(os, "fork", counted)
    alone = recovered(MemoryStorage(case[0].contents()), cache_bytes, 0)
    assert forks == []
    ahead = recovered(MemoryStorage(case[0].contents()), cache_bytes, 1)
    # One for the checksums, one that reads for redo.
    assert forks == [os.getpid()] * 2
    assert ahead[1] == alone[1] == case[1]
    assert ahead[2] == alone[2]
    assert ahead[0] == alone[0]


class FailingFile:
    """A file whose reads fail in forks of a process, once they have been so many."""

    def __init__(self, file: ReadFile, left: list[int]) -> None:
        self._file, self._left, self._parent = file, left, os.getpid()

    def read(self, offset: int, length: int) -> bytes:
        if os.getpid() != self._parent:
            self._left[0] -= 1
            if self._left[0] < 0:
                raise StorageError("no more reads")
        return self._file.read(offset, length)

    @property
    def path(self) -> str:
        return self._file.path

    def size(self) -> int:
        return self._file.size()

    def close(self) -> None:
        self._file.close()


class FailingStorage(WrappedStorage):
    def __init__(self, base: Storage, reads: int) -> None:
        super().__init__(base)
        self._left = [reads]

    def open(self, path: str) -> ReadFile:
        return FailingFile(super().open(path), self._left)


@pytest.mark.parametrize("reads", [0, 1, 7, 20])
def test_a_process_that_dies_is_as_if_it_had_never_been(case: tuple[MemoryStorage, State], reads: int) -> None:
    alone = recovered(MemoryStorage(case[0].contents()), TINY_CACHE, 0)
    storage = MemoryStorage(case[0].contents())
    dying = recovered(FailingStorage(storage, reads), TINY_CACHE, 1)
    assert dying[1:] == alone[1:]


@pytest.mark.exhaustive
@pytest.mark.parametrize("failing", ["none", "all", "every second", "the first", "the last five"])
@pytest.mark.parametrize("forks", [True, False])
@pytest.mark.parametrize("cache_bytes", [TINY_CACHE, 64 << 20])
def test_parts_that_fail_are_done_in_their_turn(
    case: tuple[MemoryStorage, State], cache_bytes: int, forks: bool, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many parts; some fail when they are found, as on a disk that is full, in either process."""
    monkeypatch.setattr("engine.log.passes.SHARE_BYTES", 1)
    parts = len(list_log_files(case[0]).files)
    assert parts > 20
    failures: dict[str, Callable[[int], bool]] = {
        "none": lambda number: False,
        "all": lambda number: True,
        "every second": lambda number: number % 2 == 1,
        "the first": lambda number: number == 0,
        "the last five": lambda number: number >= parts - 5,
    }
    fails = failures[failing]

    def shared_work(parts: int, work: Callable[[int, ScratchFile], Any]) -> SharedWork:
        def failing(number: int, scratch: ScratchFile) -> Any:
            found = work(number, scratch)
            if fails(number):
                raise StorageError("no room")
            return found

        return SharedWork(parts, failing)

    def refused() -> int:
        raise BlockingIOError("no room")

    monkeypatch.setattr("engine.recovery.redo_pass.SharedWork", shared_work)
    if not forks:
        monkeypatch.setattr(os, "fork", refused)
    alone = recovered(MemoryStorage(case[0].contents()), cache_bytes, 0)
    shared = recovered(MemoryStorage(case[0].contents()), cache_bytes, 1)
    assert shared == alone
    assert shared[1] == case[1]


@pytest.mark.parametrize("changed", ["checksum", "size", "type"])
@pytest.mark.parametrize("at", [0, 40, 81])
def test_damage_is_what_it_is_without_another_process(case: tuple[MemoryStorage, State], at: int, changed: str) -> None:
    """Analysis walks over bytes that nobody has verified yet; it is the checksum that is told."""
    contents_before = case[0].contents()
    # Before the last file, whose end is looked at in any case.
    path = sorted(path for path in contents_before if path.endswith(".jdb"))[-2]
    heads = [offset for offset, _ in offsets_and_sizes(contents_before[path], WRITTEN_VERSION)]
    pos = heads[len(heads) * at // 100] + {"checksum": 0, "type": 4, "size": 12}[changed]
    data = bytearray(contents_before[path])
    data[pos] ^= 0x10
    said = []
    for read_ahead_bytes in (0, 1):
        storage = MemoryStorage({**contents_before, path: bytes(data)})
        with pytest.raises(JetoolError) as raised:
            recovered(storage, TINY_CACHE, read_ahead_bytes)
        said.append((type(raised.value), str(raised.value), raised.value.lsn, raised.value.found))
    assert said[0] == said[1]


def test_messages_come_in_order_as_far_as_they_come() -> None:
    def some() -> Iterator[tuple[int, bytes]]:
        for number in range(5):
            # Larger than a pipe, and than what is read at once.
            yield number, b"%d" % number * 3_000_000
        raise ValueError("not heard of")

    for produce, expected in ((some, [(number, b"%d" % number * 3_000_000) for number in range(5)]), (lambda: (), [])):
        fork = ValueWorker(produce)
        assert list(fork.values()) == expected
        fork.close()


def test_without_room_for_a_process_no_message_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise BlockingIOError("no room")

    monkeypatch.setattr(os, "fork", refused)
    fork = ValueWorker(lambda: [1])
    assert list(fork.values()) == []
    fork.close()


def test_nothing_is_left_of_a_process_that_is_not_heard_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    fork = os.fork

    def noted() -> int:
        made.append(fork())
        return made[-1]

    monkeypatch.setattr(os, "fork", noted)
    one = ValueWorker(lambda: iter(int, 1))
    assert next(one.values()) == 0
    one.close()
    one.close()
    with pytest.raises(ChildProcessError):
        os.waitpid(made[0], os.WNOHANG)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("cache_bytes", [TINY_CACHE, 64 << 20])
def test_a_process_that_is_killed_at_any_moment(
    case: tuple[MemoryStorage, State], cache_bytes: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, within or after whatever part it has at hand: what it has not handed over is found here."""
    monkeypatch.setattr("engine.log.passes.SHARE_BYTES", 1)
    rng, parent, put = random.Random(seed), os.getpid(), ScratchFile.put
    alone = recovered(MemoryStorage(case[0].contents()), cache_bytes, 0)
    for moment in sorted(rng.sample(range(60), len(part(range(8))))):
        left = [moment]

        def killed(self: ScratchFile, data: bytes, left: list[int] = left) -> int:
            if os.getpid() != parent:
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return put(self, data)

        monkeypatch.setattr(ScratchFile, "put", killed)
        assert recovered(MemoryStorage(case[0].contents()), cache_bytes, 1)[1:] == alone[1:], moment


@pytest.mark.exhaustive
@pytest.mark.parametrize("whose", ["here", "there", "anywhere"])
def test_a_scratch_file_that_is_full_at_any_moment(
    case: tuple[MemoryStorage, State], whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recovery does without what is found ahead; where it cannot do without the file it changes nothing."""
    monkeypatch.setattr("engine.log.passes.SHARE_BYTES", 1)
    parent, put = os.getpid(), ScratchFile.put
    alone = recovered(MemoryStorage(case[0].contents()), TINY_CACHE, 0)
    refused = 0
    for moment in (0, *part((1, 2, 5, 11, 23, 47, 95, 191))):
        left = [moment]

        def full(self: ScratchFile, data: bytes, left: list[int] = left) -> int:
            if whose == "anywhere" or (whose == "here") == (os.getpid() == parent):
                left[0] -= 1
                if left[0] < 0:
                    raise StorageError("no room")
            return put(self, data)

        monkeypatch.setattr(ScratchFile, "put", full)
        storage = MemoryStorage(case[0].contents())
        try:
            assert recovered(storage, TINY_CACHE, 1)[1:] == alone[1:], moment
        except StorageError:
            refused += 1
            kept = {path: data for path, data in storage.contents().items() if path.endswith(".jdb")}
            assert kept == {path: data for path, data in case[0].contents().items() if path.endswith(".jdb")}
    # Nodes go there too in a cache that is too small, and for them there is no other place.
    assert (refused > 0) == (whose != "there")
