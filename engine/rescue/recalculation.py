"""Recounts utilization: walks over the trees, and reads the log.

The cleaner's counters (``space``) are estimates. Here a byte is *live* if it belongs to an entry that a tree refers to:
the full version of a node and its last delta, and LNs of slots without embedded data that are not deleted. Of these,
*expired* entries are no longer read. All else is *obsolete*: other LNs and nodes, and all entries of other kinds, such
as Commits, which belong to no database (R-CLN-3).

``DbSpace -r`` agrees within a point or two, but counts a full version as obsolete once a delta follows it, although the
delta could not be read without it.

If recovery refuses, there are no trees. Then salvage decides which version of each record counts, and the newest
version of each BIN represents its node: an estimate, for users' databases only.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.events import SILENT, Listener
from engine.format.bytecursor import unpack
from engine.format.entry.file_header import FILE_HEADER_BYTES
from engine.format.entry.node import SLOT_EMBEDDED
from engine.format.entry_types import FILE_HEADER, LNS, NODE_ENTRIES, NODES
from engine.format.fast.header import PLAIN_HEADER, header_lengths
from engine.format.fast.ln import database_of
from engine.format.header import HEADER_BYTES, HEADER_WITH_VLSN_BYTES
from engine.format.lsn import file_of, is_null, offset_of
from engine.log.access import LogAccess
from engine.log.entry import Damage, LogEntry, Stretch
from engine.log.files import LogFile, LogFiles
from engine.log.scan import scan_file
from engine.rescue.salvage.collect import Salvage
from engine.rescue.salvage.results import SalvagedRecord
from engine.rescue.salvage.scan import survey_log
from engine.rescue.salvage.sources import SalvageNode, sources_of
from engine.storage.base import Storage
from engine.tree.bin_node import BIN, DELETED, is_expired
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.verify.trees import walk_trees

_COUNTED: Final = LNS | NODE_ENTRIES | {FILE_HEADER}
_PACKED_BYTES: Final = 9


class FileSpace(NamedTuple):
    """Bytes in a file: of all its entries without the header, of the obsolete ones, and of the expired ones."""

    counted: int
    obsolete: int
    expired: int


class DatabaseSpace(NamedTuple):
    """What a database takes.

    Attributes:
        name: empty for a removed database, which has only its id.
        records: number of records in the tree.
        live, expired, obsolete: bytes of its LNs and nodes; live ones do not include expired ones.
    """

    id: int
    name: str
    records: int
    live: int
    expired: int
    obsolete: int


class Recalculation(NamedTuple):
    """The figures.

    Attributes:
        files: readable files by number.
        databases: by id.
        estimated: recovery refuses, so that the counts come from the log.
        not_walked: databases whose trees cannot be walked, with the reason.
    """

    files: dict[int, FileSpace]
    databases: tuple[DatabaseSpace, ...]
    estimated: bool
    not_walked: tuple[str, ...]


class _Uses:
    """Collects live and expired bytes, by file and by database, during walks over trees."""

    def __init__(self, access: LogAccess, now_ms: int) -> None:
        self._access = access
        self._now_ms = now_ms
        self.live: Counter[int] = Counter()
        self.expired: Counter[int] = Counter()
        self.db_live: Counter[int] = Counter()
        self.db_expired: Counter[int] = Counter()
        self.records: Counter[int] = Counter()
        self.names: dict[int, str] = {}

    def begin(self, db: DatabaseState) -> None:
        """The tree of a database follows."""
        self.names[db.id] = db.name or f"database {db.id}"

    def visit(self, db: DatabaseState, node: IN) -> None:
        """A node of it."""
        self.use(db.id, node.full_lsn)
        if not isinstance(node, BIN):
            return
        self.use(db.id, node.delta_lsn)
        for at, (lsn, state) in enumerate(zip(node.lsns, node.states, strict=True)):
            if state & DELETED:
                continue
            self.records[db.id] += 1
            # Skip LNs that were obsolete from the start, since their slots hold the data or the whole record (R-CLN-5).
            if not db.duplicates and not state & SLOT_EMBEDDED:
                self.use(db.id, lsn, node.sizes[at], node.expirations[at])

    def use(self, db_id: int, lsn: int, size: int = 0, expiration: int = 0) -> None:
        """Note a needed entry; size 0: the size is read from the log."""
        if is_null(lsn) or not self._access.has_file(file_of(lsn)):
            return
        size = size or self._size_at(lsn)
        if expiration and is_expired(expiration, self._now_ms):
            self.expired[file_of(lsn)] += size
            self.db_expired[db_id] += size
        else:
            self.live[file_of(lsn)] += size
            self.db_live[db_id] += size

    def database_at(self, lsn: int) -> int:
        """The id of the database of the node at an LSN."""
        head, length, _ = self._header_at(lsn)
        try:
            return unpack(head, length)[0]
        except (FormatError, IndexError):
            return -1

    def _size_at(self, lsn: int) -> int:
        _, length, size = self._header_at(lsn)
        return length + size

    def _header_at(self, lsn: int) -> tuple[bytes, int, int]:
        """Read the first bytes of an entry, the length of its header, and the size of its body."""
        number = file_of(lsn)
        head = self._access.handle(number).read(offset_of(lsn), HEADER_WITH_VLSN_BYTES + _PACKED_BYTES)
        if len(head) < HEADER_BYTES:
            return head, 0, 0
        _, pair, _, size = PLAIN_HEADER.unpack_from(head, 0)
        return head, header_lengths(self._access.version_of(number))[pair], size


def recalculate(
    storage: Storage, env: str, files: LogFiles, listener: Listener = SILENT, *, now_ms: int | None = None
) -> Recalculation:
    """Recount the utilization.

    Arguments:
        storage, env, files: the environment, its directory, its log files.
        listener: receives progress of ``trees`` in databases and ``files`` in bytes.
        now_ms: records that have expired by this time count as expired; None for now.

    Raises:
        UnsupportedError, StorageError: a file cannot be read.
    """
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    access = LogAccess(storage, files.files)
    try:
        uses = _Uses(access, now)
        report = walk_trees(storage, files, uses, listener=listener)
        if not report.recovered:
            uses = _Uses(access, now)
            _from_log(env, files, uses, listener)
    finally:
        access.close()
    by_file: dict[int, FileSpace] = {}
    held: Counter[int] = Counter()
    total = sum(file.size_bytes for file in files.files)
    done = 0
    for file in files.files:
        listener.step("files", done, total)
        counted = _held_by(storage, file, files.end_file(), held)
        live, expired = uses.live[file.number], uses.expired[file.number]
        by_file[file.number] = FileSpace(counted, max(counted - live - expired, 0), min(expired, counted))
        done += file.size_bytes
    listener.step("files", total, total)
    databases = tuple(
        DatabaseSpace(
            id=db_id,
            name=uses.names.get(db_id, ""),
            records=uses.records[db_id],
            live=uses.db_live[db_id],
            expired=uses.db_expired[db_id],
            obsolete=max(held[db_id] - uses.db_live[db_id] - uses.db_expired[db_id], 0),
        )
        for db_id in sorted({*held, *uses.names})
    )
    return Recalculation(by_file, databases, not report.recovered, report.not_checked)


def _held_by(storage: Storage, file: LogFile, end_file: int, held: Counter[int]) -> int:
    """Bytes of the good entries of a file without its header; those of LNs and nodes are added to ``held``."""
    counted = 0
    for item in scan_file(storage, file, is_last=file.number >= end_file).stretches():
        if isinstance(item, Damage):
            continue
        counted += item.end - item.start if isinstance(item, Stretch) else item.total_bytes
        for entry in item.entries_of(_COUNTED) if isinstance(item, Stretch) else (item,):
            if entry.type_number == FILE_HEADER:
                counted -= FILE_HEADER_BYTES
            elif entry.type_number in _COUNTED:
                held[_database_of(entry)] += entry.total_bytes
    return counted


def _database_of(entry: LogEntry) -> int:
    """The database of an LN or node; -1 if the layout does not have it at the start."""
    try:
        if entry.type_number in LNS:
            return database_of(entry.body, entry.version)
        return unpack(entry.body, 0)[0] if entry.type_number in NODES else -1
    except (FormatError, IndexError):
        return -1


def _from_log(env: str, files: LogFiles, uses: _Uses, listener: Listener) -> None:
    """The counts from salvage, if there are no trees."""
    survey = survey_log(env)
    salvage = Salvage(sources_of([SalvageNode(env, files, survey, "recovery refuses")]), listener)
    ids = {db.name: db_id for db_id, db in survey.dbs.items()}
    uses.names |= {db_id: name for name, db_id in ids.items()}
    for one in salvage.rows():
        named = salvage.databases[one.database].db
        if isinstance(one, SalvagedRecord) and named.name in ids:
            db_id = ids[named.name]
            uses.records[db_id] += 1
            if one.origin == "log" and not named.duplicates:
                uses.use(db_id, one.lsn, 0, one.expiration)
    for lsn in salvage.newest_bins():
        uses.use(uses.database_at(lsn), lsn)
