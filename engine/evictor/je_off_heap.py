"""The memory that JE's two caches need for a database if one of them lies outside the Java heap (DbCacheSize -offheap).

Upper nodes are always in the main cache, in the Java heap. Bottom nodes and records move to the off-heap cache when the
main cache has no room for them. There a node is one block in nearly the form in which it is logged, and each record is
a block. JE 18.3 has this cache (je.maxOffHeapMemory); JE 25.3 has none.

A block takes 4 bytes for its size and 16 for malloc, and JE adds the size modulo 8 for its alignment.

DbCacheSize reduces the number of records to what the upper nodes in the main cache can lead to, and keeps the number of
nodes of level 2 from before when the smaller tree has none; so does ``je_off_heap_size``.

Example: a million records of 16 and 100 bytes, and 30 MB for the main cache, which holds the upper nodes, 0.5 MB, and
6,923 bottom nodes without records. The other nodes take 11.1 MB outside the heap, and with all records 139.1 MB.

The figures were those of JE 18.3.20, byte for byte, in all 440 cases that were tried; a part of them is kept in
``tests/evictor/je_off_heap_sizes.txt``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.evictor.je_cache_size import (
    COMPACT_LSN_BYTES,
    CacheLoad,
    NodeSizes,
    logged_bytes,
    node_sizes,
    tree_nodes,
)
from engine.format.bytecursor import pack
from engine.format.fast.bin import NO_BASE
from engine.format.fast.expiration_scan import BASE_FILE_BYTES

# The main cache must be larger than the environment by more than this.
LEAST_MAIN_BYTES: Final = 1 << 20
_LENGTH_BYTES: Final = 4
_MALLOC_BYTES: Final = 16
_LEAST_BLOCK: Final = 24
# Flags, two LSNs, the least expiration, and the size of the addresses of records.
_HEAD_BYTES: Final = 1 + 8 + 8 + 4 + 2
# A run of addresses of records has a byte for its length.
_LONGEST_RUN: Final = 127
_ADDRESS_BYTES: Final = 8
# So few bytes of addresses stay in a node that has lost its records.
_MOST_UNUSED: Final = 100
_BOTTOM_LEVEL: Final = 0x10001
# Whether LSNs are compact, flags, and a small node id.
_FLAG_BYTES: Final = 1 + 1 + 1
# The base of expirations, in days since 1970.
_BASE_OF_DAYS: Final = 20_000


class JeOffHeapSize(NamedTuple):
    """The memory of both caches, each with nodes only and with records too.

    Attributes:
        records: the number of records, or fewer if the main cache does not hold the upper nodes.
        main_internal_bytes, main_all_bytes: of the main cache, without the environment. ``all`` is None if the size of
            the data is not known.
        main_least_bytes: what the upper nodes take in the main cache, without the environment.
        off_heap_internal_bytes, off_heap_all_bytes: of the off-heap cache.
    """

    records: int
    main_internal_bytes: int
    main_all_bytes: int | None
    main_least_bytes: int
    off_heap_internal_bytes: int
    off_heap_all_bytes: int | None


class _Bottom(NamedTuple):
    """Bytes of a bottom node: without records in either cache, with them in the main cache, and outside the heap.

    Attributes:
        record_ids: the addresses of its records, in the main cache.
        block, block_with_ids: the node outside the heap, without and with the addresses of its records.
        records: its records outside the heap.
    """

    alone: int
    with_records: int
    record_ids: int
    block: int
    block_with_ids: int
    records: int


class _Levels(NamedTuple):
    """Numbers of nodes: at the bottom, above it, and at level 2 of a tree of three levels or more."""

    bins: int
    upper: int
    level2: int


def je_off_heap_size(load: CacheLoad, main_cache_bytes: int | None = None) -> JeOffHeapSize:
    """The memory of both caches.

    Arguments:
        load: the database, for JE 18.3.
        main_cache_bytes: of the main cache with the environment, larger than that by ``LEAST_MAIN_BYTES``; None: it
            holds all nodes and no records.
    """
    sizes = node_sizes(load)
    bottom = _bottom(load, sizes)
    records, levels = load.records, _levels(load, load.records, 0)
    internal = levels.bins * sizes.bottom + levels.upper * sizes.upper
    main = internal if main_cache_bytes is None else main_cache_bytes - load.environment_bytes
    least = _upper_bytes(levels, sizes)
    if least > main:
        records = int(records * (main / least))
        levels = _levels(load, records, levels.level2)
    above = levels.upper * sizes.upper
    internal, every = levels.bins * bottom.alone + above, levels.bins * bottom.with_records + above
    spare = max(main - _upper_bytes(levels, sizes), 0)
    main_bins = levels.bins if internal <= main else spare // bottom.alone
    off_internal = (levels.bins - main_bins) * bottom.block
    internal = min(internal, main)
    off_every = 0
    if every > main:
        every = main
        off_every = _records_off_heap(levels, bottom, main, internal, spare) if bottom.records else off_internal
    return JeOffHeapSize(
        records=records,
        main_internal_bytes=internal,
        main_all_bytes=None if load.data_bytes is None else every,
        main_least_bytes=least,
        off_heap_internal_bytes=off_internal,
        off_heap_all_bytes=None if load.data_bytes is None else off_every,
    )


def _records_off_heap(levels: _Levels, bottom: _Bottom, main: int, internal: int, spare: int) -> int:
    """The off-heap cache with all that the main cache does not hold."""
    if internal + levels.bins * bottom.record_ids <= main:
        # All nodes are in the main cache, and records as far as there is room.
        with_records = (main - internal) // (bottom.with_records - bottom.alone)
        return (levels.bins - with_records) * bottom.records
    main_bins = spare // (bottom.alone + bottom.record_ids)
    return (levels.bins - main_bins) * bottom.block_with_ids + levels.bins * bottom.records


def _levels(load: CacheLoad, records: int, level2: int) -> _Levels:
    bins, *above = tree_nodes(records, load.entries_per_node)
    return _Levels(bins=bins, upper=sum(above), level2=above[1] if len(above) > 1 else level2)


def _upper_bytes(levels: _Levels, sizes: NodeSizes) -> int:
    """The upper nodes, those of level 2 with places for bottom nodes outside the heap instead of children."""
    low = sizes.upper - sizes.children + sizes.child_ids
    return (levels.upper - levels.level2) * sizes.upper + levels.level2 * low


def _bottom(load: CacheLoad, sizes: NodeSizes) -> _Bottom:
    filled = load.entries_per_node
    node = _HEAD_BYTES + _logged_node(load, sizes)
    addresses = 1 + filled * _ADDRESS_BYTES + (filled - 1) // _LONGEST_RUN if load.is_separate else 0
    return _Bottom(
        alone=sizes.bottom,
        with_records=sizes.bottom_with_records,
        record_ids=sizes.record_ids if load.is_separate else 0,
        block=_block(node + addresses if addresses <= _MOST_UNUSED else node),
        block_with_ids=_block(node + addresses),
        records=filled * _block(load.data_bytes or 0) if load.is_separate else 0,
    )


def _logged_node(load: CacheLoad, sizes: NodeSizes) -> int:
    """A bottom node as it is logged (``engine.format.entry.node``)."""
    is_compact = load.lsn_bytes == COMPACT_LSN_BYTES
    slot = _counted(sizes.slot_key) + load.lsn_bytes + 1
    if load.is_separate:
        slot += len(pack(logged_bytes(load)))
    slot += load.expires
    head = len(pack(_BASE_OF_DAYS if load.expires else NO_BASE)) + _counted(sizes.whole_key) + _FLAG_BYTES
    if load.prefix_bytes > 0 or load.duplicates:
        head += _counted(load.prefix_bytes)
    numbers = (load.entries_per_node, _BOTTOM_LEVEL, load.node_max)
    head += sum(len(pack(number)) for number in numbers) + BASE_FILE_BYTES * is_compact
    return head + load.entries_per_node * slot


def _counted(length: int) -> int:
    """Bytes with their number."""
    return len(pack(length)) + length


def _block(size: int) -> int:
    taken = size + _LENGTH_BYTES
    return max(taken + taken % 8 + _MALLOC_BYTES, _LEAST_BLOCK)
