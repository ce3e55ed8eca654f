"""The tables of a store and its catalogue.

A table is a heap with the rows (key, value) and a unique index from the key to the row. Container numbers end in 0 for
heaps and in 1 for indexes, as Derby's do. The catalogue is the heap in container 32 (``seg0/c20.dat``); its rows are
the name of a table and the numbers of its two containers (two longs). Creating or dropping a table changes the
catalogue and containers in one transaction; undoing the transaction undoes all of these changes. The files of a dropped
table are removed after the commit.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from engine.derby.containers import Container
from engine.derby.format import btree, column, container, page, row
from engine.derby.format.allocation import NO_PAGE
from engine.derby.format.column import Location
from engine.derby.format.container import PAGE_SIZES, ContainerHeader, ContainerKey
from engine.derby.format.operations import container as container_operations
from engine.derby.format.operations import page as operations
from engine.derby.format.row import DecodedRow, RowField, RowHeader
from engine.derby.store.heap import FIRST_PAGE, Heap, descriptor
from engine.derby.store.index import Index
from engine.derby.store.space import highest_page, initialise_container
from engine.derby.store.write_path import Core, RunningXact
from engine.errors import DamageError, ExistsError, NotFoundError, UsageError

CATALOGUE: Final = ContainerKey(0, 32)
DEFAULT_PAGE_BYTES: Final = 4096
_FIRST_HEAP: Final = 48
_STEP: Final = 16
_LONGEST_NAME: Final = 255
_NUMBERS: Final = struct.Struct(">qq")
_HEAP_MINIMUM, _INDEX_MINIMUM = 12, 1


class StoreTable:
    """One table.

    Attributes:
        name: its name.
        heap: the rows of the table.
        index: the keys of the table.
        row: location of the table's row in the catalogue.
    """

    __slots__ = ("heap", "index", "name", "row")

    def __init__(self, name: str, heap: Heap, index: Index, at: Location) -> None:
        self.name = name
        self.heap = heap
        self.index = index
        self.row = at


class TablePlace(NamedTuple):
    """A table: containers, page size in bytes, pages in use, levels of the index."""

    name: str
    heap_container: int
    index_container: int
    page_bytes: int
    heap_pages: int
    index_pages: int
    index_levels: int


class StoreTables:
    """The catalogue.

    Arguments:
        core: the write path.

    Raises: DamageError if the catalogue is missing or cannot be read.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._heap = Heap(core, self._container(CATALOGUE))
        self._known: dict[str, StoreTable] = {}
        self.reload()

    def reload(self) -> None:
        """Read the catalogue again, after a rollback that may have changed it."""
        # Built separately, so that an error leaves the old catalogue in force.
        known = {}
        for at, found in self._heap.rows():
            name = column.decode_varbit(found.columns[0]).decode("utf-8", "replace")
            known[name] = self._table(name, column.decode_varbit(found.columns[1]), at)
        self._known = known

    def names(self) -> list[str]:
        """The names of all tables, sorted."""
        return sorted(self._known)

    def get(self, name: str) -> StoreTable:
        """A table. NotFoundError when no table has the name."""
        found = self._known.get(name)
        if found is None:
            known = ", ".join(self.names()[:5]) or "none"
            raise NotFoundError(f"no table {name!r}", expected=f"one of: {known}", found=name)
        return found

    def place(self, name: str) -> TablePlace:
        """Where a table is. NotFoundError when no table has the name."""
        table = self.get(name)
        heap, index = table.heap.container, table.index.container
        return TablePlace(
            name=name,
            heap_container=heap.key.container,
            index_container=index.key.container,
            page_bytes=heap.header.page_size,
            heap_pages=highest_page(self._core, heap),
            index_pages=highest_page(self._core, index),
            index_levels=len(table.index.path(b"")),
        )

    def create(self, running: RunningXact, name: str, page_bytes: int) -> StoreTable:
        """Make a table. ExistsError when the name is taken; UsageError for an impossible name or page size."""
        stored_name = name.encode("utf-8")
        if not 0 < len(stored_name) <= _LONGEST_NAME:
            raise UsageError("a table has no possible name", expected=f"1 to {_LONGEST_NAME} bytes", found=name)
        if page_bytes not in PAGE_SIZES:
            raise UsageError(
                "a page has no possible size", expected=", ".join(map(str, PAGE_SIZES)), found=str(page_bytes)
            )
        if name in self._known:
            raise ExistsError(f"there is a table {name!r}", consequence="nothing was made")
        # Stubs and dropped containers count too: their numbers may be named in the log that recovery reads.
        used = (key.container // _STEP * _STEP + _STEP for key in self._core.containers.all_keys())
        number = max(_FIRST_HEAP, *used)
        heap_key, index_key = ContainerKey(0, number), ContainerKey(0, number + 1)
        # Containers first: the catalogue must not name containers that do not exist.
        make_heap(self._core, running, heap_key, page_bytes)
        _make_index(self._core, running, index_key, heap_key, page_bytes)
        numbers = column.encode_varbit(_NUMBERS.pack(heap_key.container, index_key.container))
        at = self._heap.insert(running, (column.encode_varbit(stored_name), numbers), [])
        self._known[name] = self._table(name, column.decode_varbit(numbers), at)
        return self._known[name]

    def drop(self, running: RunningXact, name: str) -> tuple[ContainerKey, ...]:
        """Mark a table dropped; return the containers to be removed after the commit."""
        table = self.get(name)
        # The files stay until the commit, so a rollback finds everything.
        self._heap.delete(running, table.row)
        found = table.heap.container, table.index.container
        for one in found:
            where = *one.key, one.header.version, container_operations.DROP, None
            self._core.log_container(running, container_operations.ContainerOperation(*where))
            one.change_header(status=one.header.status | container.DROPPED, version=one.header.version + 1)
        del self._known[name]
        return tuple(one.key for one in found)

    def purge_row(self, running: RunningXact, at: Location) -> None:
        """Remove the row of a dropped table from the catalogue, in an internal transaction."""
        self._heap.purge(running, at)

    def _table(self, name: str, numbers: bytes, at: Location) -> StoreTable:
        if len(numbers) != _NUMBERS.size:
            raise DamageError(
                f"the catalogue names no two containers for table {name!r}",
                file=container.path_of(CATALOGUE),
                expected=f"{_NUMBERS.size} bytes",
                found=numbers.hex() or "none",
                consequence="its table cannot be read",
                hint="run verify; restore from a backup and roll forward",
            )
        heap, index = (self._container(ContainerKey(0, number)) for number in _NUMBERS.unpack(numbers))
        return StoreTable(name, Heap(self._core, heap), Index(self._core, index), at)

    def _container(self, key: ContainerKey) -> Container:
        found = self._core.containers.find(key)
        if found is None:
            raise DamageError(
                f"{key} is missing",
                file=container.path_of(key),
                consequence="its table cannot be read",
                hint="restore the file from a backup and roll forward",
            )
        return found


def make_heap(core: Core, running: RunningXact, key: ContainerKey, page_bytes: int) -> None:
    """Make a heap with its descriptor row."""
    found = _create(core, running, key, _header(0, page_bytes, _HEAP_MINIMUM))
    header = RowHeader(
        status=row.HAS_FIRST_FIELD,
        record_id=page.FIRST_RECORD_ID,
        overflow_page=0,
        overflow_id=0,
        first_field=0,
        field_count=1,
        length=0,
    )
    image = DecodedRow(header, (RowField(0, descriptor(key)),))
    fields = operations.Insert, page.FIRST_RECORD_ID, False, 0, operations.INSERT_OVERFLOW
    core.change(running, found, FIRST_PAGE, *fields, data=row.encode_logged(image))


def _make_index(core: Core, running: RunningXact, key: ContainerKey, heap: ContainerKey, page_bytes: int) -> None:
    """Make an index with its root page, a leaf."""
    found = _create(core, running, key, _header(container.REUSABLE_IDS, page_bytes, _INDEX_MINIMUM))
    root = btree.ControlRow(
        kind=btree.LEAF,
        left=NO_PAGE,
        right=NO_PAGE,
        parent=NO_PAGE,
        level=0,
        is_root=True,
        descriptor=btree.encode_descriptor(key, heap),
    )
    fields = btree.control_fields(root)
    image = row.new_row(page.FIRST_RECORD_ID, fields)
    named = operations.Insert, page.FIRST_RECORD_ID, False, btree.CONTROL_SLOT, operations.INSERT_DEFAULT
    core.change(running, found, btree.ROOT_PAGE, *named, data=row.encode_logged(image))


def _create(core: Core, running: RunningXact, key: ContainerKey, header: ContainerHeader) -> Container:
    """Log the creation, durably, then make the file; so that a crash leaves no file that the log does not name."""
    # Redo makes the file again from this header (R-DRB-33).
    raw = container.encode_header(header)
    core.log_container(running, container_operations.ContainerOperation(*key, 0, container_operations.CREATE, raw))
    found = core.containers.create(key, header)
    initialise_container(core, found)
    return found


def _header(status: int, page_bytes: int, minimum: int) -> ContainerHeader:
    return ContainerHeader(
        status=status,
        page_size=page_bytes,
        spare_percent=0,
        minimum_record_size=minimum,
        initial_pages=1,
        preallocated_pages=8,
        first_allocation_page=-1,
        first_allocation_offset=-1,
        version=0,
        estimated_rows=0,
        reusable_id_sequence=0,
        spare=0,
    )
