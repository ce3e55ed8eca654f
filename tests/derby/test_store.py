"""The page store: tables, transactions, savepoints, long values, space, log files, several threads."""

from __future__ import annotations

import random
import threading
import time
from itertools import pairwise
from typing import NamedTuple

import pytest

from engine import PageStore, StoreOptions
from engine.derby import loggable
from engine.derby.database import DerbyDatabase
from engine.derby.format import container, describe, instant, row
from engine.derby.format.codec import FieldCursor
from engine.derby.format.operations import page as operations
from engine.derby.format.operations import registry
from engine.derby.log import DerbyLogFiles, ForwardScan
from engine.derby.pages import LivePage, Page
from engine.derby.recovery.manager import recover
from engine.derby.verify.check import verify
from engine.derby.verify.findings import NOTE
from engine.derby.xact_fates import fates
from engine.errors import DamageError, NotFoundError, RefusedError, StorageError, UsageError
from engine.storage.base import WriteFile
from engine.storage.memory import MemoryStorage
from engine.storage.overlay import WrappedFile, WrappedStorage
from tests.derby.derby_fixtures import storage_of
from tests.derby.store_workload import Workload, contents_of

QUICK = StoreOptions(lock_timeout_s=0.05)


@pytest.fixture
def files() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
def store(files: MemoryStorage) -> PageStore:
    made = PageStore.create(files, QUICK)
    made.create_table("t")
    return made


def assert_clean(files: MemoryStorage) -> None:
    assert {one.severity for one in verify(DerbyDatabase(files)).findings} <= {NOTE}


def test_records_come_back_in_order(files: MemoryStorage, store: PageStore) -> None:
    keys = [b"", b"a", b"a\0", b"a\0\0", b"a ", b"a  ", b"ab", b"\xff", b"\xff\xff"]
    for key in reversed(keys):
        store.put("t", key, b"of " + key)
    assert [key for key, _ in store.scan("t")] == keys
    assert list(store.scan("t", b"a\0", b"ab")) == [(key, b"of " + key) for key in keys[2:6]]
    assert [key for key, _ in store.scan("t", b"a", b"b", reverse=True)] == keys[1:7][::-1]
    assert store.get("t", b"a ") == b"of a "
    assert store.get("t", b"b") is None
    assert (store.delete("t", b"a"), store.delete("t", b"a")) == (True, False)
    store.close()
    with PageStore(files) as again:
        assert again.recovered.clean
        assert [key for key, _ in again.scan("t")] == [keys[0], *keys[2:]]
    assert_clean(files)


@pytest.mark.parametrize("seed", range(4))
def test_as_a_dictionary(files: MemoryStorage, seed: int) -> None:
    """Random transactions, rollbacks, savepoints, dropped tables and checkpoints against a model."""
    workload = Workload(seed, keys=30 + 200 * (seed % 2))
    workload.run(files, 60)
    image = MemoryStorage(files.contents())
    with PageStore(image) as store:
        assert contents_of(store) == workload.committed
    assert_clean(image)


def test_many_keys_make_a_tree_and_stay_dense(files: MemoryStorage, store: PageStore) -> None:
    with store.begin() as txn:
        for number in range(6000):
            txn.put("t", b"%06d" % number, b"%d" % number)
    assert [value for _, value in store.scan("t")] == [b"%d" % n for n in range(6000)]
    draw = random.Random(1)
    numbers = list(range(6000))
    draw.shuffle(numbers)
    with store.begin() as txn:
        for number in numbers[:5000]:
            assert txn.delete("t", b"%06d" % number)
    left = sorted(numbers[5000:])
    assert [key for key, _ in store.scan("t", reverse=True)] == [b"%06d" % n for n in left[::-1]]
    store.close()
    index = len(files.contents()["seg0/c31.dat"]) // 4096
    assert index < 6000 * 25 / 4096 * 1.2
    assert_clean(files)


@pytest.mark.parametrize("size", [0, 1, 31, 32, 3900, 4000, 4100, 8200, 70_000, 300_000])
def test_values_of_any_length(files: MemoryStorage, store: PageStore, size: int) -> None:
    """Long values are chains of pieces on overflow pages; replaced ones give their pages back."""
    value = random.Random(size).randbytes(size)
    for _ in range(3):
        store.put("t", b"k", value)
        store.put("t", b"k", b"short")
        store.put("t", b"k", value[::-1])
        assert store.get("t", b"k") == value[::-1]
    with store.begin() as txn:
        txn.put("t", b"k", value)
        txn.abort()
    assert store.get("t", b"k") == value[::-1]
    assert store.delete("t", b"k")
    store.close()
    # Two values at a time at most: the old one and the new one.
    assert len(files.contents()["seg0/c30.dat"]) <= 4096 * 6 + 3 * size
    assert_clean(files)


def test_rows_move_when_their_page_is_full(files: MemoryStorage, store: PageStore) -> None:
    for number in range(20):
        store.put("t", b"%02d" % number, b"x" * 150)
    before = dict(store.scan("t"))
    with store.begin() as txn:
        for number in range(20):
            txn.put("t", b"%02d" % number, b"y" * 1500)
        txn.abort()
    assert dict(store.scan("t")) == before
    for number in range(20):
        store.put("t", b"%02d" % number, b"z" * 1500)
    store.close()
    with PageStore(files) as again:
        assert {value for _, value in again.scan("t")} == {b"z" * 1500}
    assert_clean(files)


def test_space_is_used_again(files: MemoryStorage, store: PageStore) -> None:
    """Ten times as much is written and deleted as the table ever holds at once."""
    for _ in range(10):
        with store.begin() as txn:
            for number in range(100):
                txn.put("t", b"%03d" % number, b"x" * 900)
        with store.begin() as txn:
            for number in range(100):
                txn.delete("t", b"%03d" % number)
    store.close()
    assert len(files.contents()["seg0/c30.dat"]) // 4096 < 2 * 100 * 900 / 4096
    assert_clean(files)


def test_savepoints(store: PageStore) -> None:
    """R-DRB-9: after a partial rollback the transaction goes on; what was undone is not undone again (R-DRB-57)."""
    with store.begin() as txn:
        txn.put("t", b"a", b"1")
        first = txn.savepoint()
        txn.put("t", b"b", b"2")
        second = txn.savepoint()
        txn.put("t", b"a", b"3")
        txn.delete("t", b"b")
        assert txn.roll_back_to(second) == 3
        assert dict(txn.scan("t")) == {b"a": b"1", b"b": b"2"}
        txn.put("t", b"c", b"4")
        assert txn.roll_back_to(first) == 4
        with pytest.raises(UsageError, match="savepoint"):
            txn.roll_back_to(second._replace(records=10_000))
        assert dict(txn.scan("t")) == {b"a": b"1"}
        txn.put("t", b"d", b"5")
    assert dict(store.scan("t")) == {b"a": b"1", b"d": b"5"}


def test_an_exception_rolls_back(store: PageStore) -> None:
    def fail() -> None:
        with store.begin() as txn:
            txn.put("t", b"a", b"1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert store.get("t", b"a") is None


def test_tables_are_made_and_dropped_in_transactions(files: MemoryStorage, store: PageStore) -> None:
    with store.begin() as txn:
        txn.create_table("other", page_bytes=8192)
        txn.put("other", b"k", b"v")
        txn.abort()
    assert store.tables() == ["t"]
    assert "seg0/c40.dat" not in files.contents()
    store.create_table("other", page_bytes=8192)
    store.put("other", b"k", b"v" * 7000)
    with store.begin() as txn:
        txn.drop_table("other")
        with pytest.raises(NotFoundError):
            txn.put("other", b"k", b"v")
        txn.abort()
    assert store.get("other", b"k") == b"v" * 7000
    with store.begin() as txn:
        txn.drop_table("other")
    assert store.tables() == ["t"]
    store.close()
    assert [path for path in files.contents() if path.startswith("seg0/")] == [
        "seg0/c20.dat",
        "seg0/c30.dat",
        "seg0/c31.dat",
    ]
    with PageStore(files) as again, pytest.raises(RefusedError, match="there is a table"):
        again.create_table("t")
    assert_clean(files)


def test_what_cannot_be(store: PageStore) -> None:
    for name in ("", "x" * 256):
        with pytest.raises(UsageError, match="name"):
            store.create_table(name)
    with pytest.raises(UsageError, match="size"):
        store.create_table("u", page_bytes=5000)
    with pytest.raises(UsageError, match="key is too long"):
        store.put("t", b"k" * 961, b"")
    store.put("t", b"k" * 960, b"1")
    with pytest.raises(NotFoundError, match="no table"):
        store.get("nowhere", b"k")
    with pytest.raises(UsageError, match="no page store"):
        PageStore(storage_of("clean-shutdown"))
    with pytest.raises(RefusedError, match="not empty"):
        PageStore.create(MemoryStorage({"file": b""}))
    txn = store.begin()
    txn.commit()
    with pytest.raises(UsageError, match="ended"):
        txn.put("t", b"k", b"v")


def test_a_second_process_is_refused_and_a_reader_is_not(files: MemoryStorage, store: PageStore) -> None:
    store.put("t", b"a", b"1")
    with pytest.raises(RefusedError, match="in use"):
        PageStore(files)
    before = files.contents()
    with PageStore(files, read_only=True) as reader:
        assert reader.get("t", b"a") == b"1"
        reader.put("t", b"a", b"in memory only")
    assert files.contents() == before
    store.close()
    with pytest.raises(RefusedError, match="closed"):
        store.put("t", b"a", b"2")


def test_keys_are_locked_to_the_end(store: PageStore) -> None:
    store.put("t", b"a", b"1")
    writer, other = store.begin(), store.begin()
    writer.put("t", b"a", b"2")
    for use in (lambda: other.get("t", b"a"), lambda: other.put("t", b"a", b"3"), lambda: list(other.scan("t"))):
        with pytest.raises(RefusedError, match="locked by another transaction"):
            use()
    other.put("t", b"b", b"3")
    with pytest.raises(RefusedError, match="table 't' is locked"):
        other.drop_table("t")
    writer.abort()
    assert other.get("t", b"a") == b"1"
    other.commit()
    assert dict(store.scan("t")) == {b"a": b"1", b"b": b"3"}


class SlowDisk(WrappedStorage):
    """Counts syncs, each of which takes a while."""

    syncs = 0

    def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
        return _SlowFile(self, self._base.open_rw(path, create=create))


class _SlowFile(WrappedFile):
    def __init__(self, storage: SlowDisk, file: WriteFile) -> None:
        super().__init__(file)
        self._storage = storage

    def sync(self) -> None:
        self._storage.syncs += 1
        time.sleep(0.005)
        super().sync()


def test_group_commit(files: MemoryStorage) -> None:
    """R-DRB-7: commits that come while the log is being flushed share the next flush."""
    disk = SlowDisk(files)
    store = PageStore.create(disk, StoreOptions())
    store.create_table("t")
    before = disk.syncs

    def work(thread: int) -> None:
        for number in range(10):
            store.put("t", b"%d-%d" % (thread, number), b"x" * 50)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(store.scan("t"))) == 80
    assert disk.syncs - before < 60
    assert store.commits.waits > 0
    store.crash()
    with PageStore(MemoryStorage(files.contents())) as again:
        assert len(list(again.scan("t"))) == 80


def test_a_failing_sync_stops_the_store(files: MemoryStorage, store: PageStore) -> None:
    class Failing(WrappedStorage):
        failing = False

        def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
            outer = self

            class File(WrappedFile):
                def sync(self) -> None:
                    if outer.failing:
                        raise StorageError("cannot sync", file=self.path)

            return File(self._base.open_rw(path, create=create))

    store.close()
    disk = Failing(files)
    again = PageStore(disk)
    disk.failing = True
    with pytest.raises(StorageError, match="cannot sync"):
        again.put("t", b"a", b"1")
    with pytest.raises(RefusedError, match="store has stopped"):
        again.get("t", b"a")
    disk.failing = False
    again.close()
    with PageStore(files) as after:
        assert after.get("t", b"a") in (None, b"1")


def test_log_files_are_switched_and_kept_when_archived(files: MemoryStorage) -> None:
    """R-DRB-24, 73."""
    store = PageStore.create(files, log_file_bytes=100_000, archive=True)
    store.create_table("t")
    for number in range(40):
        store.put("t", b"%d" % number, b"x" * 9000)
    store.checkpoint()
    kept = DerbyLogFiles(DerbyDatabase(files)).numbers()
    assert kept == list(range(1, kept[-1] + 1))
    assert len(kept) > 3
    store.set_archive(keep=False)
    assert store.checkpoint().log_files_removed == tuple(kept[:-1])
    store.close()
    with PageStore(files) as again:
        assert not again.archive
        assert len(list(again.scan("t"))) == 40


def test_a_long_transaction_holds_the_log(files: MemoryStorage) -> None:
    """R-DRB-24: undoLWM is the begin of the oldest open transaction."""
    store = PageStore.create(files, log_file_bytes=100_000)
    store.create_table("t")
    long = store.begin()
    long.put("t", b"long", b"1")
    first = instant.file_of(long.last_instant)
    for number in range(40):
        store.put("t", b"%d" % number, b"x" * 9000)
    assert store.checkpoint().undo_lwm < long.last_instant
    assert DerbyLogFiles(DerbyDatabase(files)).numbers()[0] == first
    long.commit()
    assert store.checkpoint().log_files_removed[0] == first


def test_truncation_points_hold_the_log(files: MemoryStorage) -> None:
    """Step 8 of the design document: log files go that lie before repPoint and undoLWM, whichever is earlier."""
    store = PageStore.create(files, log_file_bytes=100_000)
    store.create_table("t")
    for number in range(40):
        store.put("t", b"%d" % number, b"x" * 9000)
    first, *_, last = DerbyLogFiles(DerbyDatabase(files)).numbers()
    assert last > first + 1
    store.set_truncation_point("replica", instant.make(first + 1, 24))
    store.set_truncation_point("backup", instant.make(last, 24))
    done = store.checkpoint()
    assert done.log_files_removed == (first,)
    assert [one.client for one in done.truncation_points] == ["replica", "backup"]
    store.set_truncation_point("replica", None)
    assert store.checkpoint().log_files_removed == tuple(range(first + 1, last))


def test_checkpoints_come_by_themselves(files: MemoryStorage) -> None:
    store = PageStore.create(files, StoreOptions(checkpoint_bytes=50_000))
    store.create_table("t")
    before = DerbyDatabase(files).controls().checkpoint
    for number in range(10):
        store.put("t", b"%d" % number, b"x" * 9000)
    assert DerbyDatabase(files).controls().checkpoint > before


def test_a_small_cache_writes_behind_the_log(files: MemoryStorage) -> None:
    """R-DRB-8: pages leave the cache before the commit, never before their log records."""
    store = PageStore.create(files, StoreOptions(cache_pages=40))
    store.create_table("t")
    txn = store.begin()
    for number in range(400):
        txn.put("t", b"%d" % number, b"x" * 1800)
    store.crash()
    with PageStore(files) as again:
        assert [one.transaction for one in again.recovered.undone] == [txn.number]
        assert list(again.scan("t")) == []
    assert_clean(files)


@pytest.mark.slow
def test_a_second_allocation_page(files: MemoryStorage, store: PageStore) -> None:
    """More pages than one allocation page of 4096 bytes manages: 10 216."""
    for part in range(21):
        with store.begin() as txn:
            for number in range(500):
                txn.put("t", b"%06d" % (part * 500 + number), b"x" * 3000)
    with store.begin() as txn:
        for number in range(10_400, 10_500):
            txn.delete("t", b"%06d" % number)
    store.flush()
    store.crash()
    with PageStore(files) as again:
        assert sum(1 for _ in again.scan("t")) == 10_400
    assert_clean(files)


def test_the_log_says_what_happened(files: MemoryStorage, store: PageStore) -> None:
    """An internal transaction for each split, a nested one for each page; readers do not appear (R-DRB-3, 10)."""
    start = store.end
    with store.begin() as txn:
        for number in range(200):
            txn.put("t", b"%03d" % number, b"x" * 30)
    list(store.scan("t"))
    store.flush()
    records = list(ForwardScan(DerbyLogFiles(DerbyDatabase(files)), start))
    found = fates(records)
    user = [one for one in found if one.number == txn.number]
    assert len(user) == 1
    assert user[0].records == 2 + 400
    internal = [one for one in found if one.internal]
    assert internal
    assert {one.outcome for one in found} == {"committed"}
    internal_numbers = {one.number for one in internal}
    assert not any(getattr(r.operation, "logical", False) for r in records if r.transaction in internal_numbers)
    for one in records:
        describe.describe(one, rows=True)


def test_copied_rows_carry_the_ids_that_the_operation_gives_them(files: MemoryStorage, store: PageStore) -> None:
    """Derby's redo puts the rows on the page as they are logged; under an old id above 63 each is a byte longer."""
    start = store.end
    with store.begin() as txn:
        for number in range(400):
            txn.put("t", b"%03d" % (number * 7 % 400), b"")
    store.flush()
    records = list(ForwardScan(DerbyLogFiles(DerbyDatabase(files)), start))
    gone: set[int] = set()
    for copied, purged in pairwise(records):
        if not isinstance(copied.operation, operations.CopyRows):
            continue
        # A split copies rows, then purges them from the page on which they were.
        assert isinstance(purged.operation, operations.Purge)
        gone |= set(purged.operation.record_ids)
        cursor = FieldCursor(copied.data)
        rows = [row.read_row(cursor) for _ in copied.operation.rows]
        assert cursor.remaining() == 0
        assert [one.header.record_id for one in rows] == [one.record_id for one in copied.operation.rows]
    assert max(gone) > 63
    store.close()
    assert_clean(files)


class Stamp(NamedTuple):
    """An operation that Derby does not have: all rows of a page get another deleted mark."""

    segment: int
    container: int
    page: int
    version: int
    deleted: bool


def _stamp(target: Page, deleted: bool) -> None:
    assert isinstance(target, LivePage)
    for slot in range(1, len(target.rows)):
        target.mark(slot, deleted=deleted)


def test_the_registry_can_be_added_to(files: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new operation is logged, done, undone at run time, redone and undone by recovery."""
    for name in ("BY_ID", "BY_CLASS", "BY_NAME"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))
    monkeypatch.setattr(loggable, "BY_CLASS", dict(loggable.BY_CLASS))
    registry.register(registry.page_operation(0x7001, "Stamp", Stamp, "bool"))
    line = loggable.Loggable(
        Stamp,
        loggable.PHYSICAL,
        lambda target, operation, _: _stamp(target, operation.deleted),
        lambda target, operation, _, __: _stamp(target, not operation.deleted),
    )
    loggable.register(line)
    with pytest.raises(ValueError, match="already"):
        loggable.register(line)
    with pytest.raises(ValueError, match="already"):
        registry.register(registry.page_operation(0x7001, "Other", operations.Purge))
    store = PageStore.create(files)
    store.create_table("t")
    store.put("t", b"a", b"1")
    core = store.core
    heap = core.containers.find(container.ContainerKey(0, 48))
    assert heap is not None
    running = core.begin()
    core.change(running, heap, 1, Stamp, True)
    with pytest.raises(DamageError, match="deleted row"):
        store.get("t", b"a")
    assert core.roll_back(running) == 1
    assert store.get("t", b"a") == b"1"
    core.change(running, heap, 1, Stamp, True)
    store.flush()
    store.crash()
    result = recover(files)
    assert (result.undone[0].transaction, result.undone[0].clrs) == (running.number, 1)
    with PageStore(files) as again:
        assert again.get("t", b"a") == b"1"
