"""Large transactions that recovery undoes, or finds undone: work that grows with the records, not with their square."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from engine.derby.cache import NoLog, PageCache
from engine.derby.containers import Containers
from engine.derby.database import DerbyDatabase
from engine.derby.format import btree, page, row
from engine.derby.format.codec import FieldCursor
from engine.derby.format.operations import page as operations
from engine.derby.pages import LivePage, decode_page
from engine.derby.recovery.manager import RecoveryOptions, recover
from engine.derby.recovery.moved_rows import MovedRows, columns_of, control_row_of
from engine.derby.store.page_store import PageStore, StoreOptions
from engine.derby.textbook import compare
from engine.derby.verify.check import verify
from engine.storage.base import ReadFile, WriteFile
from engine.storage.memory import MemoryStorage
from engine.storage.overlay import WrappedFile, WrappedStorage
from tests.derby.derby_compare import logged_content
from tests.derby.derby_fixtures import NAMES, files_of, records_of, storage_of

_OPTIONS = StoreOptions(checkpoint_bytes=0)


class _Counted(WrappedStorage):
    """Counts bytes read, and syncs, by file."""

    def __init__(self, base: MemoryStorage) -> None:
        super().__init__(base)
        self.base = base
        self.read: Counter[str] = Counter()
        self.syncs: Counter[str] = Counter()

    def open(self, path: str) -> ReadFile:
        return _CountedFile(self, self._base.open_rw(path))

    def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
        return _CountedFile(self, self._base.open_rw(path, create=create))


class _CountedFile(WrappedFile):
    def __init__(self, storage: _Counted, file: WriteFile) -> None:
        super().__init__(file)
        self._storage = storage

    def read(self, offset: int, length: int) -> bytes:
        data = super().read(offset, length)
        self._storage.read[self.path] += len(data)
        return data

    def sync(self) -> None:
        super().sync()
        self._storage.syncs[self.path] += 1


def _left_by_a_crash(rows: int, *, aborted: bool, value_bytes: int = 20) -> MemoryStorage:
    """A store with one transaction that put rows in random order."""
    storage, draw = MemoryStorage(root="store"), random.Random(3)
    store = PageStore.create(storage, _OPTIONS)
    store.create_table("t")
    with store.begin() as txn:
        txn.put("t", b"kept", b"value")
    store.checkpoint()
    loser = store.begin()
    for number in draw.sample(range(10**9), rows):
        loser.put("t", b"%012d" % number, bytes(value_bytes))
    if aborted:
        loser.abort()
    store.flush()
    store.crash()
    return storage


def _content(storage: MemoryStorage) -> dict[bytes, bytes]:
    store = PageStore(storage, _OPTIONS)
    with store.begin() as txn:
        found = dict(txn.scan("t"))
    store.close()
    return found


def test_undo_of_many_moved_rows_reads_few_pages_for_each() -> None:
    """Each row was moved by splits; the right siblings are searched a few times only."""
    rows = 1200
    storage = _Counted(_left_by_a_crash(rows, aborted=False))
    # Four pages in memory: almost every page that is looked at is read.
    done = recover(storage, RecoveryOptions(cache_pages=4))
    assert sum(one.clrs for one in done.undone) == 2 * rows
    pages = sum(count for path, count in storage.read.items() if path.startswith("seg0/")) // 4096
    assert pages < 3 * rows
    assert _content(storage.base) == {b"kept": b"value"}


def test_redo_of_a_rollback_keeps_its_place_in_the_log() -> None:
    """The records that CLRs compensate are read by a window of their own."""
    storage = _Counted(_left_by_a_crash(2500, aborted=True, value_bytes=600))
    size = sum(len(data) for path, data in storage.base.contents().items() if path.startswith("log/"))
    assert size > 2 << 20
    done = recover(storage)
    assert done.undone == ()
    assert sum(count for path, count in storage.read.items() if path.startswith("log/")) < 5 * size
    assert _content(storage.base) == {b"kept": b"value"}


@pytest.mark.parametrize("read", [verify, lambda database: list(compare(database.storage))])
def test_readers_of_a_rollback_keep_their_place_in_the_log(read: Callable[[DerbyDatabase], object]) -> None:
    """The same for those that compare versions of pages; each makes several passes."""
    storage = _Counted(_left_by_a_crash(2500, aborted=True, value_bytes=600))
    size = sum(len(data) for path, data in storage.base.contents().items() if path.startswith("log/"))
    assert size > 2 << 20
    read(DerbyDatabase(storage))
    assert sum(count for path, count in storage.read.items() if path.startswith("log/")) < 8 * size


def test_pages_that_leave_the_cache_share_syncs() -> None:
    """Without copies too: each write into a database of Derby is saved first, and that is synced."""
    storage, backup = storage_of("crash-mixed"), _Counted(MemoryStorage())
    done = recover(storage, RecoveryOptions(cache_pages=16), backup=backup)
    wide = storage_of("crash-mixed")
    recover(wide)
    assert logged_content(storage) == logged_content(wide)
    assert done.pages_written > 50
    assert 2 * sum(backup.syncs.values()) < done.pages_written


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_found_wherever_the_search_begins(name: str) -> None:
    """Every row of every index, often enough that the directory is used, and after the directory has become old."""
    containers = Containers(DerbyDatabase(storage_of(name)))
    cache = PageCache(containers, NoLog())
    draw, tried = random.Random(5), 0
    for key in containers.all_keys():
        found = containers.find(key)
        root = cache.get(found, btree.ROOT_PAGE) if found is not None else None
        if found is None or not isinstance(root, LivePage):
            continue
        control = control_row_of(root)
        if control is None or control.descriptor is None:
            continue
        unique = btree.decode_descriptor(control.descriptor).unique_columns
        leaves = {}
        for number in range(1, cache.page_count(found)):
            target = cache.get(found, number)
            known = control_row_of(target) if isinstance(target, LivePage) else None
            if isinstance(target, LivePage) and known is not None and known.kind == btree.LEAF:
                leaves[number] = target
        rows = [(number, slot) for number, leaf in leaves.items() for slot in range(1, len(leaf.rows))]
        moved = MovedRows(cache)
        for number, slot in draw.sample(rows, min(len(rows), 40)):
            leaf = leaves[number]
            columns, record_id = columns_of(leaf, slot), leaf.rows[slot].record_id
            place = moved.find(found, draw.choice(list(leaves)), columns)
            assert place is not None
            same = columns_of(leaves[place.page], leaves[place.page].slot_of(place.record_id) or 0)
            assert same[:unique] == columns[:unique]
            twins = [1 for other, at in rows if columns_of(leaves[other], at)[:unique] == columns[:unique]]
            if len(twins) == 1:
                assert place == (number, record_id)
            tried += 1
        # A row that has gone, and one that has come to another page since.
        if len(leaves) > 1 and rows:
            number, slot = rows[-1]
            columns = columns_of(leaves[number], slot)
            image = row.decode_row(leaves[number].rows[slot].record)
            leaves[number].purge(slot)
            assert moved.find(found, btree.ROOT_PAGE, columns) is None
            goal = next(other for other in leaves if other != number)
            if leaves[goal].free_bytes > leaves[goal].space_for(image):
                leaves[goal].insert(1, image)
                place = moved.find(found, number, columns)
                assert place is not None
                assert place.page == goal
    assert tried > 100


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_records_take_the_form_of_pages_at_once(name: str) -> None:
    """``stored_form`` beside reading and encoding the row."""
    seen = 0
    for one in records_of(name):
        if isinstance(one.operation, operations.Insert):
            image = row.read_row(FieldCursor(one.data))
            for record_id in (image.header.record_id, 5, 70, 20_000):
                named = row.DecodedRow(image.header._replace(record_id=record_id), image.fields)
                data_bytes = sum(len(field.data) for field in image.fields if field.data is not None)
                assert row.stored_form(one.data, record_id) == (row.encode_row(named), data_bytes)
            seen += 1
    assert seen > 50


@pytest.mark.parametrize("name", NAMES)
def test_live_pages_encode_to_the_same_bytes(name: str) -> None:
    """``LivePage.encode`` beside ``page.encode``."""
    pages = 0
    for path, data in files_of(name).items():
        if not path.startswith("seg0/c"):
            continue
        for start in range(4096, len(data) - 4095, 4096):
            image = data[start : start + 4096]
            if int.from_bytes(image[:2], "big") == page.STORED and len(image) == 4096:
                live = decode_page(image, 12)
                assert isinstance(live, LivePage)
                stored = page.decode(image)
                deleted = sum(found.record[0] & row.DELETED for found in stored.rows)
                header = stored.header._replace(deleted_plus_one=deleted + 1)
                assert live.encode() == page.encode(page.StoredPage(header, stored.rows), 4096)
                pages += 1
    assert pages > 20
