"""Operations on the whole tree of a database: counting it, loading it into the cache, reading it in disk order.

Counting and loading move from one bottom node to the next and release the latch in between, so that other threads can
work and the cache stays within its budget; concurrent changes may be seen or not.

A scan in disk order reads forward through the log instead of following keys, which is many times faster on a cold
cache. Under the latch it notes the place of each bottom node, or, for nodes in memory, their contents. After that it
needs no latch: the log does not change, and no file is deleted while it reads. So it sees the database as it was at
that moment, committed or not, each record once, in no meaningful order.

Example: a tree has bottom nodes at 0x5/0x100, 0x2/0x800 and 0x3/0x200. Only the second is in memory, with the record
``k`` at 0x1/0x40, so its contents are noted. The scan reads the nodes at 0x3/0x200 and 0x5/0x100, in this order, and
then the records of all three nodes, beginning with the one at 0x1/0x40.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Final, NamedTuple

from engine.db.engine import Engine
from engine.db.record_keys import key_and_data
from engine.format.entry.node import SLOT_EMBEDDED
from engine.tree.bin_node import BIN, DELETED, is_expired
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.tree.keys import Key
from engine.tree.spill import is_spilled
from engine.tree.tree import child_of, edge_bin, fetch_node, find_bin, next_bin, root_of, slot_data, values_at

# Number of records sorted by place and read at a time.
_BATCH: Final = 50_000
_AT_ONCE: Final = 500


class TreeStats(NamedTuple):
    """Statistics of the tree of one database.

    Attributes:
        depth: number of levels, 0 without a tree.
        bins, ins: number of bottom nodes, and of the nodes above them.
        records, deleted: number of their live and deleted slots; expired records count as records.
        embedded: number of records whose data is in their slots.
        nodes_by_level: number of nodes of level 1, 2, and so on.
    """

    depth: int
    bins: int
    ins: int
    records: int
    deleted: int
    embedded: int
    nodes_by_level: tuple[int, ...]


class PreloadReport(NamedTuple):
    """What was loaded, and why loading ended: ``whole`` (all is loaded), ``full`` (memory limit), ``late`` (time
    limit).

    Attributes:
        bins, records: number of bottom nodes in memory now, and of records whose data is in memory.
    """

    ended: str
    bins: int
    records: int


class _Noted(NamedTuple):
    """A live record that the scan has noted: its value, or, if the value is None, the LSN and size of its entry."""

    key: Key
    value: bytes | None
    lsn: int
    size: int


def tree_stats(engine: Engine, state: DatabaseState) -> TreeStats:
    """Count the nodes and slots of a tree."""
    levels: dict[int, int] = {}
    last: dict[int, int] = {}
    records = deleted = embedded = 0
    key: Key | None = None
    while True:
        with engine.latch:
            nodes = _after(engine, state, key)
            for node in nodes:
                at: IN | None = node
                while at is not None and last.get(at.height) != at.node_id:
                    # In key order all nodes below a node come consecutively.
                    last[at.height] = at.node_id
                    levels[at.height] = levels.get(at.height, 0) + 1
                    at = at.parent
                live = [slot for slot in bytes(node.states) if not slot & DELETED]
                records += len(live)
                deleted += len(node) - len(live)
                embedded += sum(1 for slot in live if slot & SLOT_EMBEDDED)
            if not nodes or not len(nodes[-1]):
                break
            key = nodes[-1].keys[-1]
        engine.keep_budget()
    depth = max(levels, default=0)
    by_level = tuple(levels.get(level, 0) for level in range(1, depth + 1))
    return TreeStats(
        depth=depth,
        bins=by_level[0] if by_level else 0,
        ins=sum(by_level[1:]),
        records=records,
        deleted=deleted,
        embedded=embedded,
        nodes_by_level=by_level,
    )


def preload(
    engine: Engine, state: DatabaseState, *, records: bool, max_bytes: int | None, max_ms: int | None
) -> PreloadReport:
    """Load a tree into the cache, in key order, within limits of memory and time.

    Arguments:
        records: load the data of the records too.
        max_bytes: limit for the whole cache; never more than the cache budget.
        max_ms: time limit in milliseconds.
    """
    ctx, room = engine.ctx, engine.evictor.budget_bytes
    limit = room if max_bytes is None else min(room, max_bytes)
    end = None if max_ms is None else time.monotonic() + max_ms / 1000
    bins = loaded = 0
    key: Key | None = None
    while True:
        with engine.latch:
            nodes = _after(engine, state, key)
            for node in nodes:
                bins += 1
                loaded += _load_records(engine, node, limit) if records else 0
            if not nodes or not len(nodes[-1]):
                return PreloadReport(ended="whole", bins=bins, records=loaded)
            key = nodes[-1].keys[-1]
        if ctx.used_bytes >= limit:
            engine.keep_budget()
            return PreloadReport(ended="full", bins=bins, records=loaded)
        if end is not None and time.monotonic() >= end:
            return PreloadReport(ended="late", bins=bins, records=loaded)


def _load_records(engine: Engine, node: BIN, limit: int) -> int:
    """Load the data of a node's records into their slots until the cache is full; returns the number of slots with
    data.
    """
    loaded, used = 0, engine.ctx.used_bytes
    for index in range(len(node)):
        if not node.is_live(index) or used >= limit:
            continue
        data = slot_data(engine.ctx, node, index, cache=True)
        if data is not None:
            loaded += 1
            used += len(data)
    engine.ctx.account(node)
    return loaded


def _after(engine: Engine, state: DatabaseState, key: Key | None) -> list[BIN]:
    """The bottom nodes after the node of a key, up to the first that is not empty; None begins at the edge of the
    database.
    """
    ctx = engine.ctx
    here = None if key is None else find_bin(ctx, state, key)
    node = edge_bin(ctx, state) if here is None else next_bin(ctx, here)
    found = []
    while node is not None:
        found.append(node)
        if len(node):
            break
        node = next_bin(ctx, node)
    return found


def scan_disk_order(engine: Engine, state: DatabaseState, *, keys_only: bool) -> Iterator[tuple[bytes, bytes]]:
    """All records of a database at this moment, committed or not, in disk order.

    Arguments:
        keys_only: return keys with empty data; then records need not be read.
    """
    cleaner = engine.cleaner
    with nullcontext() if cleaner is None else cleaner.protect_from("a scan in disk order", 0):
        with engine.latch:
            places, noted = _note(engine, state, keys_only=keys_only)
        batch: list[_Noted] = []
        for place in sorted(places):
            with engine.latch:
                node = fetch_node(engine.ctx, state, place)
                assert isinstance(node, BIN)
                batch += _records_of(engine, node, keys_only=keys_only)
            if len(batch) >= _BATCH:
                yield from _read(engine, state, batch)
                batch = []
        # Records noted from memory come last: they alone may fill many batches.
        batch += noted
        while batch:
            yield from _read(engine, state, batch[:_BATCH])
            batch = batch[_BATCH:]


def _note(engine: Engine, state: DatabaseState, *, keys_only: bool) -> tuple[list[int], list[_Noted]]:
    """The places of the bottom nodes that are not in memory, and the records of those that are."""
    places: list[int] = []
    noted: list[_Noted] = []
    root = root_of(engine.ctx, state)
    todo = [] if root is None else [root]
    while todo:
        node = todo.pop()
        if isinstance(node, BIN):
            noted += _records_of(engine, node, keys_only=keys_only)
            continue
        for index, (kid, lsn) in enumerate(zip(node.kids, node.lsns, strict=True)):
            # Nodes above the bottom level are read: they are few, and lead to the others.
            if kid is not None or node.height > 2 or is_spilled(lsn):
                todo.append(child_of(engine.ctx, node, index))
            else:
                places.append(lsn)
    return places, noted


def _records_of(engine: Engine, node: BIN, *, keys_only: bool) -> list[_Noted]:
    """The live records of a node."""
    found, now_ms = [], engine.now_ms()
    for index, key in enumerate(node.keys):
        if not node.is_live(index) or is_expired(node.expirations[index], now_ms):
            continue
        value = node.values[index]
        if keys_only or node.db.duplicates or (value is None and node.states[index] & SLOT_EMBEDDED):
            value = b""
        found.append(_Noted(key=key, value=value, lsn=node.lsns[index], size=node.sizes[index]))
    return found


def _read(engine: Engine, state: DatabaseState, batch: list[_Noted]) -> Iterator[tuple[bytes, bytes]]:
    """The records of a batch; those that must be read come in the order of their LSNs."""
    missing = sorted((one for one in batch if one.value is None), key=_lsn_of)
    for one in batch:
        if one.value is not None:
            yield key_and_data(state, one.key, one.value)
    for first in range(0, len(missing), _AT_ONCE):
        chosen = missing[first : first + _AT_ONCE]
        with engine.latch:
            values = values_at(engine.ctx, state, [one.lsn for one in chosen], [one.size for one in chosen])
        for one, value in zip(chosen, values, strict=True):
            if value is not None:
                yield key_and_data(state, one.key, value)


def _lsn_of(one: _Noted) -> int:
    return one.lsn
