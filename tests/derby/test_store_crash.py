"""The page store under crashes: at every write and sync, after every record, and during recovery."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.derby.database import DerbyDatabase
from engine.derby.format import instant
from engine.derby.format.operations.transaction import Checksum
from engine.derby.format.record import CHECKSUM_RECORD_SIZE, Record, encode_checksum
from engine.derby.log import DerbyLogFiles, ForwardScan
from engine.derby.page_copies import COPIES
from engine.derby.recovery.manager import recover
from engine.derby.store.page_store import PageStore
from engine.derby.verify.check import verify
from engine.derby.verify.findings import NOTE
from engine.storage.crash import CrashMode, CrashStorage, SimulatedCrashError
from engine.storage.memory import MemoryStorage
from tests.derby.store_workload import SMALL, Contents, Workload, contents_of


def crashed(seed: int, transactions: int, stop_at: int) -> tuple[CrashStorage, Workload]:
    """A store whose process died in front of a counted operation; 0: after the last one."""
    storage = CrashStorage()
    store = PageStore.create(storage, SMALL, log_file_bytes=100_000)
    first = storage.operations
    storage.stop_at = first + stop_at if stop_at else 0
    workload = Workload(seed)
    try:
        workload.work(store, transactions)
    except SimulatedCrashError:
        assert stop_at
    storage.operations -= first
    return storage, workload


def reopened(image: MemoryStorage) -> Contents:
    """What a store holds after recovery: twice the same, and nothing to find fault with."""
    with PageStore(image) as store:
        found = contents_of(store)
    assert {one.severity for one in verify(DerbyDatabase(image)).findings} <= {NOTE}
    with PageStore(image) as store:
        assert store.recovered.clean
        assert contents_of(store) == found
    return found


def crash_everywhere(seed: int, transactions: int) -> int:
    total = crashed(seed, transactions, 0)[0].operations
    for at in range(1, total + 1):
        storage, workload = crashed(seed, transactions, at)
        for mode in CrashMode:
            found = reopened(storage.image(mode, at))
            assert workload.allows(found), (seed, at, mode)
    return total


def test_crash_at_every_write_and_sync() -> None:
    """No committed change is lost, no uncommitted one is left, whatever of the unsynced changes survives."""
    assert crash_everywhere(seed=4, transactions=5) > 40


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 112))
def test_crash_at_every_write_and_sync_of_longer_runs(seed: int) -> None:
    assert crash_everywhere(seed, transactions=14) > 80


def records_after_the_checkpoint(storage: MemoryStorage) -> list[Record]:
    database = DerbyDatabase(storage)
    return list(ForwardScan(DerbyLogFiles(database), database.controls().checkpoint))


def cut(storage: MemoryStorage, last: Record, guard: Record) -> MemoryStorage:
    """The files with a log that ends after a record; the checksum record of its group is made to fit."""
    files = storage.contents()
    path = f"log/log{instant.file_of(last.instant)}.dat"
    log = bytearray(files[path])
    end, start = instant.position_of(last.end), instant.position_of(guard.end)
    log[end:] = bytes(len(log) - end)
    log[start - CHECKSUM_RECORD_SIZE : start] = encode_checksum(guard.instant, bytes(log[start:end]))
    files[path] = bytes(log)
    for number in range(instant.file_of(last.instant) + 1, 20):
        files.pop(f"log/log{number}.dat", None)
    return MemoryStorage(files)


def steps(storage: MemoryStorage) -> Iterator[tuple[Record, MemoryStorage]]:
    """Every record after the last checkpoint, and the files with a log that ends after it."""
    guard: Record | None = None
    for one in records_after_the_checkpoint(storage):
        if isinstance(one.operation, Checksum):
            guard = one
        elif guard is not None:
            yield one, cut(storage, one, guard)


def test_stepwise() -> None:
    """The log is cut after each record; what the commits in front of the cut have left is there, and nothing else."""
    storage, workload = crashed(seed=21, transactions=8, stop_at=0)
    image = storage.image(CrashMode.NO_FSYNC)
    seen = set()
    for last, shorter in steps(image):
        expected = [found for end, found in workload.history if end <= last.end]
        seen.add(len(expected))
        assert reopened(shorter) == expected[-1], instant.show(last.instant)
    assert len(seen) > 3


def test_recovery_interrupted_at_every_operation() -> None:
    """And then run again, and interrupted with torn pages too: the same."""
    storage, workload = crashed(seed=6, transactions=9, stop_at=0)
    image = storage.image(CrashMode.NO_FSYNC)
    counted = CrashStorage(image.contents())
    assert recover(counted).undone
    for at in range(1, counted.operations + 1):
        for mode in CrashMode:
            again = CrashStorage(image.contents(), stop_at=at)
            with pytest.raises(SimulatedCrashError):
                recover(again)
            assert reopened(again.image(mode, at)) == workload.committed, (at, mode)


def test_torn_pages_are_mended_from_their_copies() -> None:
    """Without the copies the torn page would be lost: its checksum is wrong (R-DRB-33)."""
    storage = MemoryStorage()
    store = PageStore.create(storage, SMALL)
    store.create_table("t")
    store.put("t", b"a", b"1")
    store.checkpoint()
    store.put("t", b"b", b"2" * 100)
    store.checkpoint()
    store.flush()
    store.crash()
    files = storage.contents()
    page = bytearray(files["seg0/c30.dat"])
    page[4096 + 80 : 4096 + 200] = bytes(120)
    torn = MemoryStorage({**files, "seg0/c30.dat": bytes(page)})
    assert {one.code for one in verify(DerbyDatabase(torn)).findings} >= {"DRB-PAGE-001"}
    assert any("1 page was torn" in note for note in recover(torn).notes)
    assert COPIES not in torn.contents()
    assert reopened(torn) == {"t": {b"a": b"1", b"b": b"2" * 100}}
