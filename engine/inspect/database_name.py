"""Names of databases, reserved files, and the utilization of files, looked up in the trees of a checkpoint.

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
from engine.format.entry.ln_content import FileSummary, FileSummaryLN, MapLN, NameLN
from engine.format.entry.node import KNOWN_DELETED, PENDING_DELETED, NodeRecord
from engine.format.entry_types import BINS, DELTA_TYPE
from engine.format.fast.file_summary import summary_file
from engine.format.lsn import NULL_LSN
from engine.log.entry import LogEntry
from engine.log.scan import LogScan

# The most levels of a tree, plus one for a BIN-delta; ends the descent in a damaged tree with a cycle.
_MOST_STEPS: Final = 12
# The most nodes read of the naming tree; a million names need fewer.
_MOST_NODES: Final = 10_000
_OWN: Final = "_je"
_RESERVED_FILES: Final = "_jeReservedFilesDb"
_UTILIZATION: Final = "_jeUtilization"
# Each is a random read. An environment with more files than that has terabytes.
_MOST_SUMMARIES: Final = 4_000


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
    return {
        tuples.parse_long_key(key)
        for key in _live_slots(log, root, _RESERVED_FILES)
        if len(key) == tuples.LONG_KEY_BYTES
    }


def file_summaries(log: LogScan, root: DbTree) -> dict[int, FileSummary]:
    """The counters of each log file at the checkpoint, by file number; see ``UtilizationTracker`` for their keys.

    Raises:
        StorageError: a file cannot be read.
    """
    newest: dict[int, tuple[bytes, int]] = {}
    for key, lsn in _live_slots(log, root, _UTILIZATION).items():
        number = summary_file(key)
        # Keys descend by sequence number: the first key of a file is its newest.
        if number >= 0 and (number not in newest or key < newest[number][0]):
            newest[number] = key, lsn
    found: dict[int, FileSummary] = {}
    for number in sorted(newest)[-_MOST_SUMMARIES:]:
        entry = log.entry_at(newest[number][1])
        summary = None if entry is None else summary_of(entry)
        if summary is not None and summary[1] is not None:
            found[number] = summary[1]
    return found


def summary_of(entry: LogEntry) -> tuple[int, FileSummary | None] | None:
    """The file that a FileSummaryLN describes, and its counters, None for a deletion; None for another entry."""
    try:
        record: object = entry.record()
    except (FormatError, IndexError, ValueError):
        return None
    if not isinstance(record, LN) or not isinstance(record.content, FileSummaryLN) or summary_file(record.key) < 0:
        return None
    return summary_file(record.key), record.content.summary


def _live_slots(log: LogScan, root: DbTree, name: str) -> dict[bytes, int]:
    """The keys of a database of JE's own, each with the LSN of its record."""
    named = _find(log, root.naming_db.root_lsn, name.encode())
    if named is None or not isinstance(named.content, NameLN):
        return {}
    mapped = _find(log, root.mapping_db.root_lsn, str(named.content.db_id).encode())
    if mapped is None or not isinstance(mapped.content, MapLN):
        return {}
    found: dict[bytes, int | None] = {}
    for number, node in _nodes(log, mapped.content.database.root_lsn):
        # The walk gives a delta before its full version. For a key in both, the slot of the delta is newer, so the
        # first one counts.
        for slot in node.slots if number in BINS else ():
            is_live = not slot.state & (KNOWN_DELETED | PENDING_DELETED)
            found.setdefault(node.full_key(slot), slot.lsn if is_live else None)
    return {key: lsn for key, lsn in found.items() if lsn is not None}


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
