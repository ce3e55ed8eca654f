"""What JE needs besides an intact log, and what it would refuse.

The databases are those of the last checkpoint; only logs of JE 3 and 4 are recovered for reading them. Unreadable parts
give no note, since ``verify`` finds damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Final

from engine.catalog.catalog import Catalog
from engine.cleaner.disk_limits import default_free_disk
from engine.db.config import read_properties
from engine.errors import DamageError, FormatError, JetoolError, StorageError, UsageError, plural
from engine.events import SILENT, Listener
from engine.format.entry.checkpoint import CkptEnd
from engine.format.entry.db_tree import DatabaseImpl, DbTree
from engine.format.entry.legacy import OldDelta
from engine.format.entry.ln_content import MapLN
from engine.format.entry.node import NodeRecord
from engine.format.entry_types import NODE_ENTRIES, OLD_DELTA_TYPE
from engine.format.lsn import NULL_LSN, file_of, format_lsn
from engine.format.versions import TWO_PART_DUPLICATES
from engine.log.access import LogAccess
from engine.log.entry import LogEntry
from engine.log.files import LogFiles, log_file_name
from engine.log.scan import scan_file
from engine.log.tail import LastCheckpoint, find_end, find_last_checkpoint
from engine.storage.base import Storage
from engine.tree.context import TreeContext
from engine.tree.keys import comparator_name
from engine.tree.tree import bins, read_ln
from engine.verify.report import NOTE, Finding, Rule, finding

if TYPE_CHECKING:
    from engine.db.parts import EnvironmentParts

PRE_UPGRADE: Final = Rule(
    "JE-OPEN-001",
    NOTE,
    "duplicates, or deltas, of JE 3 or 4 in the recovery interval",
    "JE 5 and later refuse to open the environment and ask for DbPreUpgrade_4_1; the log is sound",
    "jetool recover converts them; or run DbPreUpgrade_4_1 with JE 4.1.20 or later",
)
DISK_FULL: Final = Rule(
    "JE-OPEN-002",
    NOTE,
    "less of the disk is free than je.freeDisk",
    "JE 18 and later open the environment and refuse every write with DiskLimitException",
    "make room on the disk, or lower je.freeDisk in je.properties",
)
CLASSES: Final = Rule(
    "JE-OPEN-003",
    NOTE,
    "databases are ordered by Java classes",
    "JE opens these databases only where the classes are on its class path",
    "open them with the application's class path; jetool-orders(7) lists the orders that jetool knows",
)
RULES: Final = (PRE_UPGRADE, DISK_FULL, CLASSES)

_MOST_CLASSES: Final = 8


def notes_for_je(
    storage: Storage, files: LogFiles, known: LastCheckpoint | None = None, listener: Listener = SILENT
) -> Iterator[Finding]:
    """The notes, at most one of each kind.

    Arguments:
        known: the last checkpoint, if the caller has found it: a log without one is walked to its beginning.
        listener: receives the steps of that search.
    """
    if not files.files:
        return
    found = files._replace(marker=None)
    with closing(LogAccess(storage, found.files)) as access:
        try:
            last = known or find_last_checkpoint(access, find_end(storage, found), listener)
            record = access.read(last.ckpt_end_lsn).record() if last.ckpt_end_lsn != NULL_LSN else None
            end = record if isinstance(record, CkptEnd) else None
            databases = _databases(access, last.root_lsn if end is None else end.root_lsn)
            yield from _pre_upgrade(storage, found, access, NULL_LSN if end is None else end.ckpt_start_lsn)
            yield from _classes(databases)
            version = access.version_of(found.files[-1].number)
        except (JetoolError, FormatError, LookupError, ValueError, AssertionError):
            return
    if wanted := default_free_disk(version):
        yield from _disk(storage, wanted)


def _databases(access: LogAccess, root_lsn: int) -> dict[int, DatabaseImpl]:
    """The databases of a root, as far as they can be read."""
    root = access.read(root_lsn).record()
    found: dict[int, DatabaseImpl] = {}
    if not isinstance(root, DbTree):
        return found
    ctx = TreeContext(access)
    mapping = Catalog(ctx, root, {}).mapping
    try:
        for node in bins(ctx, mapping):
            for lsn in [node.lsns[index] for index in range(len(node)) if node.is_live(index)]:
                content = read_ln(ctx, mapping, lsn).content
                if isinstance(content, MapLN) and not content.deleted:
                    found[content.database.db_id] = content.database
    except (DamageError, FormatError):
        return found
    return found


def _pre_upgrade(storage: Storage, files: LogFiles, access: LogAccess, start_lsn: int) -> Iterator[Finding]:
    """JE checks the nodes that it replays, those since the last CkptStart, of databases that exist after recovery."""
    first = 0 if start_lsn == NULL_LSN else file_of(start_lsn)
    nodes: dict[int, LogEntry] = {}
    refused: list[LogEntry] = []
    for file in files.files:
        if file.number < first or access.version_of(file.number) >= TWO_PART_DUPLICATES:
            continue
        for entry in scan_file(storage, file, is_last=file is files.files[-1], types=NODE_ENTRIES).good_entries():
            record = entry.record()
            if (start_lsn == NULL_LSN or entry.lsn >= start_lsn) and isinstance(record, (NodeRecord, OldDelta)):
                nodes.setdefault(record.db_id, entry)
                if entry.type_number == OLD_DELTA_TYPE:
                    # Refused for any database.
                    refused.append(entry)
                    break
    if not nodes:
        return

    def look(parts: EnvironmentParts) -> None:
        for db_id, entry in nodes.items():
            state = parts.catalog.by_id(db_id)
            if state is not None and state.duplicates:
                refused.append(entry)

    # Logs of these versions are rare, so they are recovered in memory to find their databases.
    if not refused:
        from engine.verify.trees import recover_only

        recover_only(storage, files, look)
    if refused:
        entry = refused[0]
        message = f"{entry.type_name} at {format_lsn(entry.lsn)}"
        yield finding(PRE_UPGRADE, message, lsn=entry.lsn, file=log_file_name(file_of(entry.lsn)))


def _classes(databases: dict[int, DatabaseImpl]) -> Iterator[Finding]:
    named = []
    for _, impl in sorted(databases.items()):
        names = (comparator_name(impl.btree_comparator), comparator_name(impl.duplicate_comparator))
        classes = " and ".join(dict.fromkeys(name for name in names if name))
        if classes:
            named.append(f"{impl.name or f'database {impl.db_id}'} by {classes}")
    if named:
        more = f" and {len(named) - _MOST_CLASSES} more" if len(named) > _MOST_CLASSES else ""
        yield finding(CLASSES, "; ".join(named[:_MOST_CLASSES]) + more)


def _disk(storage: Storage, default: int) -> Iterator[Finding]:
    try:
        free, said = storage.free_bytes(), read_properties(storage).get("je.freeDisk")
    except (StorageError, UsageError):
        return
    text = "" if said is None else said.strip()
    wanted = int(text) if text.isdecimal() else default
    if free is not None and free < wanted:
        by = "je.properties" if text.isdecimal() else "JE's default"
        yield finding(DISK_FULL, f"{plural(free, 'byte')} of {wanted} wanted by {by}")
