"""Log files that are missing or cut short, and the data that only they held.

A gap in the numbers proves nothing: the cleaner deletes files in any order. A file is *missing* if a tree leads into
it, or if recovery has to read it; else it was *cleaned*. If recovery refuses, the trees in the log are walked
(``engine.rescue.salvage.trees``). If damage prevents this walk too, a file without known references is *unknown*.

Three things are lost with a file:

* a record whose slot leads there; an older version may be in another file;
* a node, with the whole subtree below it. Its key range is known, and the average number of records below nodes of that
  level in this database;
* the full version of a BIN whose delta is in another file; the loss is that of a node.

A record that is embedded in its slot, that has expired or was discarded, or that belongs to a database with duplicates
needs no file (R-TREE-41).

A file is *cut short* when it ends before the entry that the header of the next file names as its last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.db.record_keys import key_and_data
from engine.errors import DamageError, FormatError, JetoolError, RefusedError
from engine.events import PARTS, SILENT, Listener
from engine.format.entry.db_tree import MAPPING_DB_ID, NAMING_DB_ID, DatabaseImpl
from engine.format.entry.node import SLOT_EMBEDDED, NodeRecord
from engine.format.entry_types import COMMIT, DELTA_TYPE, TXN_ENDS, USER_LNS
from engine.format.lsn import NULL_LSN, file_of, is_null, offset_of, parse_lsn
from engine.inspect.survey import survey
from engine.log.access import LogAccess
from engine.log.files import LogFiles, LogProgress, list_log_files
from engine.log.scan import scan_log
from engine.recovery.result import TxnLsns
from engine.rescue.salvage import scan
from engine.rescue.salvage.coverage import cut_short
from engine.rescue.salvage.extinct import word_for
from engine.rescue.salvage.tree_survey import TreeCatalog
from engine.rescue.salvage.trees import LostBranch, SalvageTreeWalk, index_nodes
from engine.storage.base import Storage
from engine.tree.bin_node import BIN
from engine.tree.database_state import INTERNAL_PREFIX, DatabaseState
from engine.tree.in_node import IN, root_in_memory
from engine.tree.spill import is_spilled
from engine.tree.tree import fetch_node
from engine.verify.missing_file_refs import lost_slots
from engine.verify.records import has_expired

MISSING: Final = "missing"
CLEANED: Final = "cleaned"
CUT: Final = "cut"
UNKNOWN: Final = "unknown"
STATES: Final = (MISSING, CLEANED, CUT, UNKNOWN)

# Most missing numbers that are listed for a gap: between files 0 and 7ffffffe two billion are missing.
_MOST_NUMBERS: Final = 100_000
# Number of BINs between two reports of progress.
_TOLD_BINS: Final = 64


class AbsentFile(NamedTuple):
    """A log file that is missing or incomplete.

    Attributes:
        state: of ``STATES``.
        in_recovery: recovery has to read it.
        nodes, records: numbers of references to nodes and records in the file.
        first_db: a database with such a reference; empty if there is no reference.
    """

    number: int
    state: str
    in_recovery: bool
    nodes: int
    records: int
    first_db: str


class LostKey(NamedTuple):
    """A record whose newest version was in a missing file.

    Attributes:
        older: the LSN of an older version that exists.
        internal: the database is one of JE's own.
    """

    db: str
    key: bytes
    lsn: int
    older: int
    internal: bool


class LostSubtree(NamedTuple):
    """A part of a tree whose root node was in a missing file.

    Attributes:
        low, high: the key range, from ``low`` on and below ``high``; None: no bound.
        lsn: where the node was logged.
        level: 1 for a BIN.
        records: estimated number of records.
        internal: the database is one of JE's own.
    """

    db: str
    low: bytes | None
    high: bytes | None
    lsn: int
    level: int
    records: int
    internal: bool


class MissingReport(NamedTuple):
    """What is missing.

    Attributes:
        files: in ascending order.
        keys, subtrees: lost keys and subtrees by database, in key order.
        problem: why recovery refuses, or the part of the log that it does not read, such as commits after damage in the
            last file; empty if it reads everything.
        walked: recovery succeeds, and its trees were walked.
        databases: names of users' databases that are lost entirely.
    """

    files: tuple[AbsentFile, ...]
    keys: tuple[LostKey, ...]
    subtrees: tuple[LostSubtree, ...]
    problem: str
    walked: bool
    databases: tuple[str, ...]


def find_missing(storage: Storage, env: str, listener: Listener = SILENT) -> MissingReport:
    """Find missing log files, and the data that only they held.

    Arguments:
        storage, env: the environment and its directory.
        listener: receives progress of ``trees`` in databases, and steps of ``salvage``.

    Raises:
        NotFoundError: no environment. UnsupportedError, StorageError: a file cannot be read.
    """
    files = list_log_files(storage)
    cut = cut_short(storage, files)
    absent = _Absent(files, cut)
    problem, stopped_at, walked = "", NULL_LSN, True
    try:
        with Environment(storage, EnvironmentConfig(read_only=True), listener) as opened:
            walk = _Walk(opened, absent)
            walk.run(listener)
            problem = opened.unseen or ""
    except (DamageError, RefusedError) as error:
        problem, walked = str(error), False
        stopped_at = NULL_LSN if error.lsn is None else parse_lsn(error.lsn)
    databases: tuple[str, ...] = ()
    is_whole = walked
    if walked:
        keys, subtrees = _with_older(storage, files, walk.keys, walk.names, listener), walk.subtrees
    else:
        logged = _LogWalk(storage, files, env, absent)
        logged.run(listener)
        keys = _with_older(storage, files, logged.keys, logged.names, listener, drop_replaced=True)
        subtrees, databases, is_whole = logged.subtrees, logged.databases, logged.is_whole
        for one in keys:
            absent.note(one.lsn, one.db, node=False)
    needed = set() if walked else _needed_by_recovery(storage, files, absent)
    # Recovery also reads nodes before its range.
    if absent.holds(stopped_at):
        needed.add(file_of(stopped_at))
    listed = tuple(absent.file(number, number in needed, walked=is_whole) for number in absent.numbers())
    return MissingReport(listed, tuple(keys), tuple(subtrees), problem, walked, databases)


class _Absent:
    """The missing parts of the log, and the references to them."""

    def __init__(self, files: LogFiles, cut: Mapping[int, int]) -> None:
        self._present = {file.number for file in files.files}
        self._cut = cut
        self._gaps = set(files.missing()[:_MOST_NUMBERS])
        self._nodes: dict[int, int] = {}
        self._records: dict[int, int] = {}
        self._first_db: dict[int, str] = {}

    def holds(self, lsn: int) -> bool:
        """Whether an LSN is in a missing file, or after the end of a cut one."""
        number = file_of(lsn)
        if is_null(lsn):
            return False
        if number not in self._present:
            return True
        return number in self._cut and offset_of(lsn) >= self._cut[number]

    def may_hold(self, lsns: list[int]) -> bool:
        """Whether ``holds`` can be true for one of many LSNs."""
        numbers = {lsn >> 32 for lsn in lsns}
        return not numbers <= self._present or not numbers.isdisjoint(self._cut)

    def note(self, lsn: int, db: str, *, node: bool) -> None:
        """Something leads there."""
        number = file_of(lsn)
        counts = self._nodes if node else self._records
        counts[number] = counts.get(number, 0) + 1
        self._first_db.setdefault(number, db)

    def numbers(self) -> list[int]:
        """Files that are missing, incomplete, or referenced."""
        return sorted({*self._gaps, *self._cut, *self._nodes, *self._records})

    def file(self, number: int, in_recovery: bool, *, walked: bool) -> AbsentFile:
        """The facts about one file."""
        nodes, records = self._nodes.get(number, 0), self._records.get(number, 0)
        if number in self._cut:
            state = CUT
        elif nodes or records or in_recovery:
            state = MISSING
        else:
            state = CLEANED if walked else UNKNOWN
        return AbsentFile(number, state, in_recovery, nodes, records, self._first_db.get(number, ""))


class _Walk:
    """Walks over the trees of a recovered environment without keeping them in memory."""

    def __init__(self, env: Environment, absent: _Absent) -> None:
        self._engine = env.engine
        self._absent = absent
        self._now_ms = time.time() * 1000
        self.keys: list[LostKey] = []
        self.subtrees: list[LostSubtree] = []
        self.names: dict[str, int] = {}
        self._databases = [(name, env.open_database(name)) for name in env.database_names(internal=True)]

    def run(self, listener: Listener) -> None:
        """Walk over all trees."""
        total = len(self._databases)
        for done, (name, db) in enumerate(self._databases):

            def told(share: float, done: int = done) -> None:
                listener.step("trees", int((done + share) * PARTS), total * PARTS)

            told(0.0)
            self.names[name] = db.state.id
            self._tree(name, db.state, told)
            db.close()
        listener.step("trees", total * PARTS, total * PARTS)

    def _tree(self, name: str, db: DatabaseState, told: Callable[[float], None]) -> None:
        bins = records = 0
        walked = 0.0
        lost: list[LostSubtree] = []
        # The last element of a tuple is the estimated share of the tree that is below the node.
        todo: list[tuple[int, IN | None, bytes | None, bytes | None, int, float]] = []
        root = root_in_memory(db)
        if root is not None or db.has_root:
            todo.append((db.root_lsn, root, None, None, -1, 1.0))
        while todo:
            lsn, node, low, high, level, share = todo.pop()
            if node is None:
                read = self._read(db, lsn)
                if not isinstance(read, IN):
                    if read != NULL_LSN:
                        self._absent.note(read, name, node=True)
                        lost.append(
                            LostSubtree(
                                db=name,
                                low=low,
                                high=high,
                                lsn=read,
                                level=max(level, 1),
                                records=0,
                                internal=_is_own(name),
                            )
                        )
                    continue
                node = read
            if isinstance(node, BIN):
                bins += 1
                records += node.live_records()
                self._slots(name, db, node)
                walked += share
                if not bins % _TOLD_BINS:
                    told(walked)
                continue
            keys = [_stored(db, key) for key in node.keys]
            bounds = [low, *keys[1:], high]
            children = [
                (lsn, self._kid(db, node, at), bounds[at], bounds[at + 1], (node.level & 0xFFFF) - 1, share / len(node))
                for at, lsn in enumerate(node.lsns)
            ]
            todo += reversed(children)
        average = records / bins if bins else float(db.max_entries) / 2
        for one in lost:
            # Upper nodes have about as many children as BINs have records.
            self.subtrees.append(one._replace(records=round(average**one.level)))

    def _kid(self, db: DatabaseState, node: IN, at: int) -> IN | None:
        kid, lsn = node.kids[at], node.lsns[at]
        spill = self._engine.ctx.spill
        return spill.peek(db, lsn) if kid is None and is_spilled(lsn) and spill is not None else kid

    def _read(self, db: DatabaseState, lsn: int) -> IN | int:
        """A node; if it cannot be read, the needed LSN in a missing file, or NULL_LSN if there is another cause."""
        if self._absent.holds(lsn):
            return lsn
        try:
            return fetch_node(self._engine.ctx, db, lsn)
        except (DamageError, FormatError):
            pass
        # A delta needs a full version, which may be in another file. Damage within existing files is left to
        # ``verify``.
        try:
            entry = self._engine.access.read(lsn)
            record = entry.record() if entry.type_number == DELTA_TYPE else None
        except (DamageError, FormatError):
            return NULL_LSN
        full = record.prev_full_lsn if isinstance(record, NodeRecord) else NULL_LSN
        return full if self._absent.holds(full) else NULL_LSN

    def _slots(self, name: str, db: DatabaseState, node: BIN) -> None:
        if db.duplicates or not self._absent.may_hold(node.lsns):
            return
        for at in lost_slots(db, node, self._absent.holds, self._engine.ctx.may_be_extinct, self._now_ms):
            self._absent.note(node.lsns[at], name, node=False)
            self.keys.append(LostKey(name, _stored(db, node.keys[at]), node.lsns[at], NULL_LSN, _is_own(name)))


def _stored(db: DatabaseState, key: object) -> bytes:
    return key if isinstance(key, bytes) else key_and_data(db, key, b"")[0]


def _with_older(
    storage: Storage,
    files: LogFiles,
    keys: list[LostKey],
    names: Mapping[str, int],
    listener: Listener,
    *,
    drop_replaced: bool = False,
) -> list[LostKey]:
    """Search for older versions of lost records: the log is read once, and only if records are lost.

    Arguments:
        drop_replaced: skip records that a newer LN, not applied by recovery, has replaced or deleted.
    """
    wanted = {(names[one.db], one.key): one for one in keys}
    if not wanted:
        return []
    found: dict[tuple[int, bytes], list[tuple[int, int | None, bool]]] = {}
    committed = TxnLsns()
    told = LogProgress(listener, "look for older versions", files.files)
    for item in told.along(scan_log(storage, files).good_entries()):
        if item.type_number in TXN_ENDS and item.type_number == COMMIT:
            end = scan.end_of(item)
            if end is not None:
                committed.setdefault(end.id, item.lsn)
        elif item.type_number in USER_LNS and not item.invisible:
            record = scan.record_of(item)
            place = None if record is None else (record.db_id, record.key)
            if record is not None and place in wanted:
                found.setdefault(place, []).append((item.lsn, record.txn_id, record.data is None))

    def versions(one: LostKey) -> list[tuple[int, bool]]:
        """LSN of each committed version, and whether it is a deletion."""
        rows = found.get((names[one.db], one.key), ())
        return [(lsn, deleted) for lsn, txn, deleted in rows if txn is None or txn in committed]

    told_of = []
    for one in keys:
        rows = versions(one)
        if drop_replaced and any(lsn > one.lsn for lsn, _ in rows):
            continue
        older = max((lsn for lsn, deleted in rows if lsn < one.lsn and not deleted), default=NULL_LSN)
        told_of.append(one._replace(older=older))
    return told_of


class _LogWalk:
    """Walks over the trees in the log if recovery refuses.

    Attributes:
        is_whole: everything unreadable was in absent files.
    """

    def __init__(self, storage: Storage, files: LogFiles, env: str, absent: _Absent) -> None:
        self._storage = storage
        self._files = files
        self._log = scan.survey_log(env)
        self._absent = absent
        self._now_ms = time.time() * 1000
        self.keys: list[LostKey] = []
        self.subtrees: list[LostSubtree] = []
        self.names: dict[str, int] = {}
        self.databases: tuple[str, ...] = ()
        self.is_whole = True

    def run(self, listener: Listener) -> None:
        """Walk over all trees."""
        log = self._log
        access = LogAccess(self._storage, self._files.files)
        try:
            walk = SalvageTreeWalk(access, index_nodes(self._storage, self._files, NULL_LSN)[1])
            roots = {**log.roots, **log.own_roots}
            for done, (db_id, (_, impl)) in enumerate(sorted(roots.items())):
                listener.step("trees", done, len(roots))
                name = log.dbs[db_id].name if db_id in log.dbs else impl.name or f"database {db_id}"
                if db_id in (MAPPING_DB_ID, NAMING_DB_ID):
                    continue
                self.names[name] = db_id
                self._tree(walk, name, impl, internal=db_id in log.internal)
            listener.step("trees", len(roots), len(roots))
            catalog = TreeCatalog(walk, max((one.root_lsn for one in log.checkpoints), default=NULL_LSN))
            self._catalog(catalog)
            self.databases = tuple(catalog.lost(log))
        finally:
            access.close()

    def _catalog(self, catalog: TreeCatalog) -> None:
        """The mapping and the naming tree."""
        self.is_whole &= catalog.is_known
        for db_id, branch in catalog.branches:
            self._branch(f"database {db_id}", branch, internal=True)
        for key, lsn in [(b"%d" % db_id, lsn) for db_id, lsn in catalog.maps.items()]:
            self._catalog_record(MAPPING_DB_ID, key, lsn)
        for name, lsn in catalog.names.items():
            self._catalog_record(NAMING_DB_ID, name.encode(), lsn)

    def _catalog_record(self, db_id: int, key: bytes, lsn: int) -> None:
        if self._absent.holds(lsn):
            name = f"database {db_id}"
            self.names[name] = db_id
            self.keys.append(LostKey(name, key, lsn, NULL_LSN, internal=True))

    def _tree(self, walk: SalvageTreeWalk, name: str, impl: DatabaseImpl, *, internal: bool) -> None:
        bins = records = 0
        first = len(self.subtrees)
        ranges = [one for one in self._log.extinct if impl.db_id in one.db_ids]
        ordered = not (impl.btree_comparator or impl.duplicate_comparator)
        for node in walk.walk(impl):
            if isinstance(node, LostBranch):
                self._branch(name, node, internal=internal)
                continue
            bins += 1
            for slot in node.live():
                records += 1
                if impl.duplicates or slot.state & SLOT_EMBEDDED or not self._absent.holds(slot.lsn):
                    continue
                # The cleaner deletes files whose records have expired or were discarded.
                if has_expired(slot.expiration, self._now_ms) or word_for(ranges, slot.key, slot.lsn, ordered=ordered):
                    continue
                self.keys.append(LostKey(name, slot.key, slot.lsn, NULL_LSN, internal))
        average = records / bins if bins else float(impl.max_entries) / 2
        for at in range(first, len(self.subtrees)):
            one = self.subtrees[at]
            self.subtrees[at] = one._replace(records=round(average**one.level))

    def _branch(self, name: str, branch: LostBranch, *, internal: bool) -> None:
        if not self._absent.holds(branch.lsn):
            # Damage within existing files is left to ``verify``.
            self.is_whole = False
            return
        self._absent.note(branch.lsn, name, node=True)
        self.subtrees.append(LostSubtree(name, branch.low, branch.high, branch.lsn, branch.level, 0, internal=internal))


def _is_own(name: str) -> bool:
    return name.startswith(INTERNAL_PREFIX)


def _needed_by_recovery(storage: Storage, files: LogFiles, absent: _Absent) -> set[int]:
    """Absent files needed by recovery: those from the first active LSN of the last checkpoint on."""
    try:
        checkpoint = survey(storage, files, quick=True).checkpoint
    except JetoolError:
        return set()
    first = 0 if checkpoint is None else file_of(checkpoint.record.first_active_lsn)
    last = files.files[-1].number
    return {number for number in absent.numbers() if first <= number <= last}
