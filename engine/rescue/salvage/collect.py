"""Salvage: yields the records of damaged environments in order, with findings about lost, doubtful and orphaned ones.

Each log is read twice: once for the survey (``sources``), once for all versions of all records, which are sorted by
database and key (``sorted_versions``). Then all rows of a record are adjacent and are judged (``verdict``), so memory
does not grow with the logs. Nothing is written to the sources.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from engine.db.environment import Environment
from engine.db.record_keys import key_and_data
from engine.events import SILENT, Listener, heard
from engine.format.bytecursor import join_two_part_key
from engine.format.entry.ln import LN
from engine.format.entry_types import BINS, COMMIT, DUP_NODES, TXN_ENDS, USER_LNS
from engine.format.lsn import NULL_LSN
from engine.format.versions import TWO_PART_DUPLICATES
from engine.inspect.fates import COMMITTED
from engine.log.entry import Damage, LogEntry, Stretch
from engine.log.files import LogFile
from engine.log.scan import scan_file
from engine.recovery.result import TxnLsns
from engine.rescue.salvage.databases import SalvageDb, nameless_name
from engine.rescue.salvage.extinct import ExtinctRange
from engine.rescue.salvage.record_choice import Judge
from engine.rescue.salvage.results import Salvaged, SalvagedDatabase
from engine.rescue.salvage.scan import decoded, end_of, ln_version, node_versions
from engine.rescue.salvage.sorted_versions import SortedVersions
from engine.rescue.salvage.sources import READER, SalvageNode, SalvageSource, unfinished_tasks
from engine.rescue.salvage.tree_survey import TreeSurvey, survey_trees
from engine.rescue.salvage.trees import EVERYTHING, BranchRanges, DatabaseBranches
from engine.rescue.salvage.verdict import NewestBins, TxnFates
from engine.rescue.salvage.version_reader import GENERAL, IGNORED, NEW, REMOVED, VersionTaker
from engine.rescue.salvage.versions import LN_BYTES, NO_DATA, SINGLE, SLOT_BYTES, tree_version
from engine.storage.disk import DiskStorage
from engine.tree.bin_node import is_expired
from engine.tree.database_state import DatabaseState
from engine.tree.tree import bins, slot_data


class Salvage:
    """One salvage.

    Arguments:
        sources: what is salvaged.
        listener: receives progress of ``read`` with bytes of log.
        now_ms: time for testing expiration; None: the current time.

    Attributes:
        databases: databases of the result, complete once the logs are read.
        counts: counters by word, updated while rows are taken: ``records``, ``deleted``, ``expired``, ``lost``,
            ``stood-in``,
            ``unconfirmed``, ``in-doubt``, and skipped versions: ``aborted``, ``open``, ``rolled-back``, ``removed`` (in
            removed databases), ``extinct`` (discarded by the application); ``maybe-extinct``, records that a filter of
            the application may have discarded; ``lost-nodes`` and ``lost-below``: lost nodes, and the estimated number
            of records below them.
        lost_databases: names of databases that are lost entirely, once all rows are taken.
        absent: for each node of all sources, numbers of missing log files.
    """

    def __init__(
        self, sources: Sequence[SalvageSource], listener: Listener = SILENT, now_ms: int | None = None
    ) -> None:
        self._sources = sources
        self._listener = listener
        self._now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        self.databases: list[SalvagedDatabase] = []
        self.counts: Counter[str] = Counter()
        self.lost_databases: list[str] = []
        self._numbers: dict[tuple[int, str], int] = {}
        # For each node whose records come from recovery, the ranges of unfinished tasks; finished tasks have left no
        # records in their ranges.
        self._unfinished: dict[int, list[ExtinctRange]] = {}
        # Indexes of these lists are the numbers of nodes, across all sources.
        self._nodes = [(at, node) for at, source in enumerate(sources) for node in source.nodes]
        self.absent: list[set[int]] = [set(node.files.missing()) for _, node in self._nodes]
        # The records of a base node come from recovery.
        self._is_base = [
            sources[at].base is not None and sources[at].nodes[sources[at].base or 0] is node
            for at, node in self._nodes
        ]
        self.trees = [self._trees_of(number) for number in range(len(self._nodes))]
        self._commits = [TxnLsns() for _ in self._nodes]
        self._rows = SortedVersions(self._commits)
        self._takers = [self._taker(number) for number in range(len(self._nodes))]
        groups = [[n for n, (at, _) in enumerate(self._nodes) if at == here] for here, _ in self._nodes]
        self._fates = TxnFates(self._commits, [taker.aborts for taker in self._takers], groups)

    def _trees_of(self, number: int) -> TreeSurvey:
        """The trees of a node; empty if recovery gives its records."""
        at, node = self._nodes[number]
        if self._is_base[number] or (self._sources[at].base is not None and len(self._sources[at].nodes) == 1):
            return TreeSurvey()
        trees = survey_trees(DiskStorage(node.env), node.files, node.survey)
        if trees.removed:
            survey = node.survey
            dbs = {db_id: db for db_id, db in survey.dbs.items() if db_id not in trees.removed}
            survey = survey._replace(dbs=dbs, removed=survey.removed | trees.removed)
            self._nodes[number] = at, node._replace(survey=survey)
        return trees

    def rows(self) -> Iterator[Salvaged]:
        """Records by database and key, each preceded by its findings. Iterate once."""
        for batch in self.batches():
            yield from batch

    def batches(self) -> Iterator[list[Salvaged]]:
        """The records and findings of ``rows`` in batches, each of one database."""
        total = sum(file.size_bytes for _, node in self._nodes for file in node.files.files)
        done = 0
        try:
            for number, (at, node) in enumerate(self._nodes):
                source = self._sources[at]
                if self._is_base[number]:
                    self._read_tree(number, at, node)
                elif source.base is None or len(source.nodes) > 1:
                    for file in node.files.files:
                        self._listener.step("read", done, total)
                        self._read_file(number, node, file)
                        done += file.size_bytes
                    self.counts["removed"] += self._takers[number].removed
                    for db_id in sorted(node.survey.named & node.survey.dbs.keys()):
                        # Databases without records, too.
                        self._numbered(number, db_id)
            self._listener.step("read", total, total)
            judge = Judge(
                self._sources,
                self.databases,
                self._fates,
                self._commits,
                self._takers,
                self.counts,
                self._now_ms,
                self._extinct(),
                self._all_branches(),
            )
            yield from heard(judge.batches(self._rows), self._listener, "judge", every=1)
            self._count_lost(judge)
        finally:
            self._rows.close()

    def _count_lost(self, judge: Judge) -> None:
        """Count the records below lost nodes, but not for a group: other nodes may have these records."""
        for number, (at, node) in enumerate(self._nodes):
            present = {file.number for file in node.files.files}
            trees = self.trees[number]
            self.absent[number] = {*node.files.missing(), *trees.absent, *judge.lost_files[number]} - present
            if len(self._sources[at].nodes) > 1:
                continue
            self.lost_databases += trees.lost_databases
            self.counts["lost-nodes"] += trees.lost_internal
            for db_id, branches in trees.lost.items():
                self.counts["lost-nodes"] += len(branches)
                given = judge.below[self._numbered(number, db_id)] if db_id in node.survey.dbs else 0
                self.counts["lost-below"] += max(round(trees.lost_below(db_id)) - given, 0)

    def _extinct(self) -> dict[tuple[int, int], list[ExtinctRange]]:
        """Discarded ranges of committed tasks, by database and node."""
        found: dict[tuple[int, int], list[ExtinctRange]] = {}
        for number, (_, node) in enumerate(self._nodes):
            for one in self._unfinished.get(number, node.survey.extinct):
                if one.txn is not None and self._fates.fate(number, one.txn) != COMMITTED:
                    continue
                for db_id in one.db_ids:
                    if db_id in node.survey.dbs:
                        database = self._numbered(number, db_id)
                        found.setdefault((database, number), []).append(one)
        return found

    def _branches(self, number: int, db_id: int) -> DatabaseBranches:
        """The parts of a database missing from the trees of a node."""
        trees, db = self.trees[number], self._nodes[number][1].survey.dbs[db_id]
        lost, unknown = trees.lost.get(db_id, []), trees.unknown.get(db_id, [])
        is_unsure = trees.time == NULL_LSN or db_id in trees.unsure
        # The order of keys is unknown if a Java class defines it.
        return DatabaseBranches(
            lost=BranchRanges([EVERYTHING] if lost and db.comparator else lost, duplicates=db.duplicates),
            unknown=BranchRanges(
                [EVERYTHING] if is_unsure or (unknown and db.comparator) else unknown, duplicates=db.duplicates
            ),
        )

    def _all_branches(self) -> dict[tuple[int, int], DatabaseBranches]:
        """Lost branches by database and node; pairs without lost branches are left out."""
        found = {}
        for number, (at, node) in enumerate(self._nodes):
            for db_id, db in node.survey.dbs.items():
                database = self._numbers.get((at, self._own(number, db_id, db).name))
                branches = self._branches(number, db_id)
                if database is not None and any(branches):
                    found[database, number] = branches
        return found

    def newest_bins(self) -> Iterator[int]:
        """LSN of the newest complete version of each BIN of users' databases, once the logs are read."""
        for taker in self._takers:
            yield from taker.bins.lsns.values()

    def _database(
        self, at: int, db: SalvageDb, *, orphan: bool = False, local: bool = False, nameless: bool = False
    ) -> int:
        """The number of a database of a source."""
        number = self._numbers.get((at, db.name))
        if number is None:
            number = self._numbers[at, db.name] = len(self.databases)
            self.databases.append(SalvagedDatabase(at, db, orphan, local, nameless))
        return number

    def _own(self, number: int, db_id: int, db: SalvageDb) -> SalvageDb:
        """The database with its name in the result; the name of a local database includes its node."""
        at, node = self._nodes[number]
        if db_id < 0 or len(self._sources[at].nodes) == 1:
            return db
        return db._replace(name=f"{db.name} ({node.env})")

    def _numbered(self, number: int, db_id: int) -> int:
        """The number of a database, by its id on a node."""
        at, node = self._nodes[number]
        db = node.survey.dbs[db_id]
        # Another node of the group may have the name.
        nameless = db_id in node.survey.nameless and db.name == nameless_name(db_id)
        return self._database(at, self._own(number, db_id, db), local=db_id >= 0, nameless=nameless)

    def _read_tree(self, number: int, at: int, node: SalvageNode) -> None:
        """Records of recovery, with the last VLSN of their node."""
        vlsn = node.recovered_vlsn
        with Environment(node.env, READER, self._listener) as env:
            self._unfinished[number] = unfinished_tasks(env)
            for name in env.database_names():
                with env.open_database(name) as db:
                    state = db.state
                    found = SalvageDb(
                        name=name,
                        duplicates=db.duplicates,
                        key_prefixing=state.prefixing,
                        max_entries=state.max_entries,
                        comparator=state.order.comparator is not None,
                    )
                    database = self._database(at, self._own(number, state.id, found), local=state.id >= 0)
                    records = self._tree_records(env, db.state)
                    for key, data, expiration, lsn in heard(records, self._listener, "take records"):
                        stored = join_two_part_key(key, data) if db.duplicates else key
                        kept = NO_DATA if db.duplicates else data
                        version = tree_version(lsn, kept, vlsn, expiration)
                        self._rows.add(database, stored, number, version, LN_BYTES + len(kept))

    def _tree_records(self, env: Environment, state: DatabaseState) -> Iterator[tuple[bytes, bytes, int, int]]:
        """Key, data, expiration and LSN of every record of a tree."""
        engine = env.engine
        for node in bins(engine.ctx, state):
            for index in range(len(node)):
                if not node.is_live(index):
                    continue
                if is_expired(node.expirations[index], self._now_ms):
                    self.counts["expired"] += 1
                    continue
                data = slot_data(engine.ctx, node, index)
                if data is not None:
                    key, value = key_and_data(state, node.keys[index], data)
                    yield key, value, node.expirations[index], node.lsns[index]
            env.engine.keep_budget()

    def _read_file(self, number: int, node: SalvageNode, file: LogFile) -> None:
        """Read versions and transaction ends of one file; the survey has already reported unreadable parts."""
        scan = scan_file(DiskStorage(node.env), file, is_last=file.number >= node.files.end_file())
        if not scan.is_readable():
            return
        taker = self._takers[number]
        for item in scan.stretches():
            if isinstance(item, Stretch):
                taker.take(item.data, item.start, item.end, item.lsn, item.version)
            elif not isinstance(item, Damage):
                self._read_entry(number, item)

    def _taker(self, number: int) -> VersionTaker:
        """The collector of a node's versions."""
        survey = self._nodes[number][1].survey

        def kind_of(db_id: int) -> int:
            if db_id in survey.dbs:
                return NEW
            # Other databases have no legible MapLN, so they take the general path.
            return IGNORED if db_id in survey.internal else REMOVED if db_id in survey.removed else GENERAL

        low = min((period[0] for period in survey.periods), default=NULL_LSN)
        high = max((period[1] for period in survey.periods), default=NULL_LSN)
        return VersionTaker(
            self._rows,
            number,
            self._commits[number],
            kind_of,
            partial(self._numbered, number),
            partial(self._read_entry, number),
            (low, high),
            self._bins_of(number),
        )

    def _bins_of(self, number: int) -> NewestBins:
        node = self._nodes[number][1]
        survey = node.survey
        return NewestBins(_last_gap(node), survey.checkpoints, self.trees[number], survey.gap_end)

    def _read_entry(self, number: int, item: LogEntry) -> None:
        """The general path: take one entry of any kind."""
        taker, kind = self._takers[number], item.type_number
        if kind in TXN_ENDS:
            end = end_of(item)
            if end is not None:
                (taker.commits if kind == COMMIT else taker.aborts).setdefault(end.id, max(end.time, 0))
        elif kind in USER_LNS:
            self._read_ln(number, item)
        elif kind in BINS or kind in DUP_NODES:
            self._read_slots(number, item)

    def _read_ln(self, number: int, item: LogEntry) -> None:
        at, node = self._nodes[number]
        survey = node.survey
        found = ln_version(item, survey)
        if found is not None:
            database = self._numbered(number, found[0])
        else:
            record = decoded(item)
            if not isinstance(record, LN) or record.db_id in survey.dbs or record.db_id in survey.internal:
                return
            if record.db_id in survey.removed:
                self.counts["removed"] += 1
                return
            # The database has no legible MapLN: try with assumed properties.
            name = survey.names.get(record.db_id, nameless_name(record.db_id))
            unknown = SalvageDb(name, duplicates=False)
            found = ln_version(item, survey._replace(dbs={record.db_id: unknown}))
            assert found is not None
            database = self._database(at, unknown, orphan=True)
        _, key, version = found
        if item.version < TWO_PART_DUPLICATES and self.databases[database].db.duplicates:
            old = self._takers[number].old_duplicates
            old.take_entry(item.lsn)
            if version[1] & SINGLE:
                old.take_deletion(database, key, version)
                return
        self._rows.add(database, key, number, ([version], None), LN_BYTES + len(version[2]))

    def _read_slots(self, number: int, item: LogEntry) -> None:
        found = node_versions(item, self._nodes[number][1].survey)
        if found is None:
            return
        if found.main_key is not None:
            old = self._takers[number].old_duplicates
            old.take_entry(item.lsn)
            if found.rows:
                database = self._numbered(number, found.db_id)
                old.take_tree(database, found.main_key)
        if found.is_whole:
            self._takers[number].bins.take(found.node, item.lsn, found.keys)
        for key, slot in found.rows:
            database = self._numbered(number, found.db_id)
            self._rows.add(database, key, number, ([], slot), SLOT_BYTES + len(slot[2]))


def _last_gap(node: SalvageNode) -> int:
    """The highest LSN at which a log is damaged; NULL_LSN without damage.

    A torn tail does not count, since it held nothing durable. Missing files do not count either: most were cleaned, and
    then every BIN in use is in a later file.
    """
    damages = (damage for damage in node.survey.damages if not damage.is_tail)
    return max((one.lsn for one in damages if one.length or one.reason == "unreadable"), default=NULL_LSN)
