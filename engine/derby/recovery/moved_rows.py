"""Where splits have moved the rows of an index.

A moved row is copied byte for byte, so stored bytes are compared, not SQL values, and no order of keys is needed
(R-DRB-55). Only the *unique columns* that the root page's descriptor names are compared: in a unique index the record
being undone may itself have replaced the row location. Splits move rows to the right, so a search goes from the page of
the record along the right siblings, then through all other leaf pages.

A large transaction that filled an index has one moved row for almost each of its records, and each search would read
half of the leaves. Once the searches in an index have read as many leaves as it has, a directory of its rows is made: a
hash of the unique columns and the page, eight bytes a row. It is a hint only. The pages that it names are looked at,
and anything but exactly one such row there leads to a search as before.

Example: 190,000 rows inserted in random order by one open transaction lie on 1,900 leaves of an index. 380,000 searches
read 3,800 leaves in all before the directories are there, and one or two pages each afterwards.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.derby.cache import PageCache
from engine.derby.containers import Container
from engine.derby.format import btree, page, row
from engine.derby.format.container import ContainerKey
from engine.derby.pages import LivePage
from engine.errors import DamageError, FormatError

# Columns as they are stored; None for null.
Columns = list[bytes | None]
_BUCKETS: Final = 256
_PAGE_BITS: Final = 32
_MOST_PAGES: Final = 1 << _PAGE_BITS


class RowPlace(NamedTuple):
    """A row of an index."""

    page: int
    record_id: int


class MovedRows:
    """Finds rows that are no longer where their record put them.

    Arguments:
        cache: the pages.
    """

    __slots__ = ("_cache", "_indexes")

    def __init__(self, cache: PageCache) -> None:
        self._cache = cache
        self._indexes: dict[ContainerKey, _Index] = {}

    def find(self, found: Container, first: int, columns: Columns) -> RowPlace | None:
        """Find a row.

        Arguments:
            found: the container of the index.
            first: the page where the row was.
            columns: all columns of the row.

        Returns: the row, or None if it is on no leaf page.
        Raises: DamageError when the root page does not say which columns are unique.
        """
        index = self._indexes.get(found.key)
        if index is None:
            unique_columns = _unique_columns(self._cache, found)
            index = self._indexes[found.key] = _Index(unique_columns, self._cache.page_count(found))
        wanted = columns[: index.unique_columns]
        if index.searched > index.pages:
            index.pages = self._cache.page_count(found)
            index.directory = _directory_of(self._cache, found, index) if index.pages < _MOST_PAGES else None
            index.searched = 0
        if index.directory is not None:
            places = [
                place
                for number in index.directory.pages_of(wanted)
                for place in _rows_on(self._cache, found, number, wanted)
            ]
            if len(places) == 1:
                return places[0]
        for number, leaf in _leaves(self._cache, found, first):
            index.searched += 1
            for slot in _matches(leaf, wanted):
                return RowPlace(number, leaf.rows[slot].record_id)
        return None


class _Index:
    """What is known of one index.

    Attributes:
        unique_columns: number of columns that identify a row.
        pages: number of its pages at the last count.
        searched: leaves that searches have read since the directory was made.
        directory: its rows, or None.
    """

    __slots__ = ("directory", "pages", "searched", "unique_columns")

    def __init__(self, unique_columns: int, pages: int) -> None:
        self.unique_columns = unique_columns
        self.pages = pages
        self.searched = 0
        self.directory: _RowDirectory | None = None


class _RowDirectory:
    """The pages of rows, by a hash of their columns."""

    __slots__ = ("_buckets",)

    def __init__(self, rows: Iterator[tuple[int, Columns]]) -> None:
        self._buckets = [array("Q") for _ in range(_BUCKETS)]
        for number, columns in rows:
            code = hash(tuple(columns))
            self._buckets[code % _BUCKETS].append(_high(code) | number)
        # Sorted one after the other, so that only one bucket is a list at a time.
        self._buckets = [array("Q", sorted(bucket)) for bucket in self._buckets]

    def pages_of(self, columns: Columns) -> list[int]:
        """Pages that had such a row."""
        code = hash(tuple(columns))
        bucket, high = self._buckets[code % _BUCKETS], _high(code)
        found: list[int] = []
        for entry in bucket[bisect_left(bucket, high) : bisect_left(bucket, high + _MOST_PAGES)]:
            number = entry % _MOST_PAGES
            if number not in found:
                found.append(number)
        return found


def _high(code: int) -> int:
    """The part of a hash that does not choose the bucket, above the bits of the page."""
    return (code // _BUCKETS) % (1 << _PAGE_BITS - 1) << _PAGE_BITS


def _directory_of(cache: PageCache, found: Container, index: _Index) -> _RowDirectory:
    def rows() -> Iterator[tuple[int, Columns]]:
        for number in range(btree.ROOT_PAGE, index.pages):
            leaf = _leaf(cache, found, number)
            if leaf is not None:
                for slot in range(btree.CONTROL_SLOT + 1, len(leaf.rows)):
                    yield number, columns_of(leaf, slot)[: index.unique_columns]

    return _RowDirectory(rows())


def columns_of(target: LivePage, slot: int) -> Columns:
    """The stored bytes of the columns of a row."""
    # Not by ``LiveRow.decoded``, which keeps what it decodes: a search reads every row of many pages.
    return [field.data for field in row.decode_row(target.rows[slot].record).fields]


def control_row_of(target: LivePage) -> btree.ControlRow | None:
    """The control row of a valid index page, or None."""
    if target.header.status != page.VALID or not target.rows:
        return None
    try:
        return btree.control_row(target.rows[btree.CONTROL_SLOT].decoded())
    except FormatError:
        return None


def _unique_columns(cache: PageCache, found: Container) -> int:
    """Number of columns that identify a row of an index."""
    root = cache.get(found, btree.ROOT_PAGE)
    control = control_row_of(root) if isinstance(root, LivePage) else None
    if control is None or control.descriptor is None:
        raise DamageError(
            f"the root page of {found.key} has no index descriptor",
            file=found.path,
            consequence="the rows of open transactions cannot be found in it",
            hint="restore from a backup and roll forward",
        )
    return btree.decode_descriptor(control.descriptor).unique_columns


def _rows_on(cache: PageCache, found: Container, number: int, wanted: Columns) -> list[RowPlace]:
    """The rows of a leaf page that have the wanted columns."""
    leaf = _leaf(cache, found, number)
    if leaf is None:
        return []
    return [RowPlace(number, leaf.rows[slot].record_id) for slot in _matches(leaf, wanted)]


def _matches(leaf: LivePage, wanted: Columns) -> Iterator[int]:
    """Slots whose first columns are the wanted ones."""
    # A search in the bytes of a record is a hundred times as fast as decoding it.
    longest = max((column for column in wanted if column is not None), key=len, default=b"")
    for slot in range(btree.CONTROL_SLOT + 1, len(leaf.rows)):
        if longest in leaf.rows[slot].record and columns_of(leaf, slot)[: len(wanted)] == wanted:
            yield slot


def _leaf(cache: PageCache, found: Container, number: int) -> LivePage | None:
    """The page, if it is a leaf page."""
    target = cache.get(found, number)
    if not isinstance(target, LivePage):
        return None
    control = control_row_of(target)
    return target if control is not None and control.kind == btree.LEAF else None


def _leaves(cache: PageCache, found: Container, first: int) -> Iterator[tuple[int, LivePage]]:
    """Leaf pages: the first one, its right siblings, then all others in the order of their numbers."""
    seen: set[int] = set()
    # Splits move rows to the right, so the siblings come first; ``seen`` ends a damaged chain.
    number = first
    while number > 0 and number not in seen:
        seen.add(number)
        leaf = _leaf(cache, found, number)
        if leaf is None:
            break
        yield number, leaf
        control = control_row_of(leaf)
        number = control.right if control is not None else 0
    # The chain is broken, or the record's page is no longer a leaf: the row may be on any other leaf.
    for number in range(btree.ROOT_PAGE, cache.page_count(found)):
        if number not in seen:
            leaf = _leaf(cache, found, number)
            if leaf is not None:
                yield number, leaf
