"""Names of databases, and reserved files, looked up in the trees of a checkpoint.

The root of the environment (DbTree) holds the LSN of the mapping tree's root. Its keys are database ids as decimal text
in byte order, its records are MapLNs, which carry the name (je-log-format.md 9.2). A lookup reads a handful of entries.
Changes after the checkpoint are not applied, so use it only where nothing can have changed since.

Example: DbTree 0xb/0x366f -> IN 0xb/0x3642 -> BIN 0xb/0x35eb -> slot "4" -> MapLN with the name ``_jeExpiration``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.errors import FormatError
from engine.format import tuples
from engine.format.entry.db_tree import DbTree
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import MapLN, NameLN
from engine.format.entry.node import KNOWN_DELETED, PENDING_DELETED, NodeRecord
from engine.format.entry_types import BINS, DELTA_TYPE
from engine.format.lsn import NULL_LSN
from engine.log.scan import LogScan

# The most levels of a tree, plus one for a BIN-delta; ends the descent in a damaged tree with a cycle.
_MOST_STEPS: Final = 12
# The most nodes read of the naming tree; a million names need fewer.
_MOST_NODES: Final = 10_000
_OWN: Final = "_je"
_RESERVED_FILES: Final = "_jeReservedFilesDb"


def database_name(log: LogScan, root: DbTree, db_id: int) -> str | None:
    """The name of a database; None if it is not found.

    Arguments:
        log: the environment.
        root: newest DbTree of a complete checkpoint.
        db_id: which database.

    Raises:
        StorageError: a file cannot be read.
    """
    record = _find(log, root.mapping_db.root_lsn, str(db_id).encode())
    return record.content.database.name if record is not None and isinstance(record.content, MapLN) else None


def reserved_files(log: LogScan, root: DbTree) -> set[int]:
    """The files that are reserved for deletion at the checkpoint, whether or not they still exist.

    Raises:
        StorageError: a file cannot be read.
    """
    named = _find(log, root.naming_db.root_lsn, _RESERVED_FILES.encode())
    if named is None or not isinstance(named.content, NameLN):
        return set()
    mapped = _find(log, root.mapping_db.root_lsn, str(named.content.db_id).encode())
    if mapped is None or not isinstance(mapped.content, MapLN):
        return set()
    live: dict[bytes, bool] = {}
    for number, node in _nodes(log, mapped.content.database.root_lsn):
        # The walk gives a delta before its full version. For a key in both, the slot of the delta is newer, so the
        # first one counts.
        for slot in node.slots if number in BINS else ():
            live.setdefault(node.full_key(slot), not slot.state & (KNOWN_DELETED | PENDING_DELETED))
    return {
        tuples.parse_long_key(key) for key, is_live in live.items() if is_live and len(key) == tuples.LONG_KEY_BYTES
    }


def database_names(log: LogScan, root: DbTree) -> list[str]:
    """The readable names of all databases except JE's own, from the naming tree of the checkpoint.

    Raises:
        StorageError: a file cannot be read.
    """
    found: set[str] = set()
    for number, node in _nodes(log, root.naming_db.root_lsn):
        # A name that only the full version has may have been removed since; that is good enough to recognise an
        # application.
        if number in BINS:
            found |= {
                node.full_key(slot).decode("utf-8", "replace") for slot in node.slots if not slot.state & KNOWN_DELETED
            }
    return sorted(name for name in found if not name.startswith(_OWN))


def _find(log: LogScan, root_lsn: int, key: bytes) -> LN | None:
    """The record of a key in a tree; None if it is not found."""
    lsn = root_lsn
    for _ in range(_MOST_STEPS):
        entry = log.entry_at(lsn)
        try:
            record = entry.record() if entry is not None else None
        except FormatError:
            return None
        if entry is None or not isinstance(record, NodeRecord):
            return record if isinstance(record, LN) else None
        is_bin = entry.type_number in BINS
        lsn = _bin_slot(record, key) if is_bin else _child(record, key)
        # A delta holds only changed slots; the others are in its full version.
        if lsn == NULL_LSN and entry.type_number == DELTA_TYPE:
            lsn = record.prev_full_lsn
    return None


def _nodes(log: LogScan, root_lsn: int) -> Iterator[tuple[int, NodeRecord]]:
    """Type and record of every readable node of a tree; the full version of a delta comes after the delta."""
    waiting, seen = [root_lsn], 0
    while waiting and seen < _MOST_NODES:
        seen += 1
        entry = log.entry_at(waiting.pop())
        try:
            node = entry.record() if entry is not None else None
        except FormatError:
            continue
        if entry is None or not isinstance(node, NodeRecord):
            continue
        yield entry.type_number, node
        if entry.type_number not in BINS:
            waiting += [slot.lsn for slot in node.slots]
        elif entry.type_number == DELTA_TYPE:
            waiting.append(node.prev_full_lsn)


def _bin_slot(node: NodeRecord, key: bytes) -> int:
    slots = (slot for slot in node.slots if node.full_key(slot) == key and not slot.state & KNOWN_DELETED)
    return next((slot.lsn for slot in slots), NULL_LSN)


def _child(node: NodeRecord, key: bytes) -> int:
    """The child whose range holds a key; the key of slot 0 counts as lower than all."""
    lsn = NULL_LSN
    for number, slot in enumerate(node.slots):
        if number == 0 or node.full_key(slot) <= key:
            lsn = slot.lsn
    return lsn
