"""Checking trees, references, data and utilization: everything that ``verify --tree --refs --data --space`` does.

The environment is recovered in memory, as a reader does: nothing is changed, and what is checked is what JE
would see after opening it. First the naming and the mapping tree are walked, then the tree of every database they name,
JE's own included. Temporary databases are left out: recovery removes them (R-REC-60).

What is held in memory is what recovery needs within the default cache, one path of a tree, a bit per node id and
bounded lists; so the size of the environment does not matter.

Branches of a large tree are walked over apart from each other, and what was seen in each is joined in their order:
forked processes do that here, and ``walk_share`` does it elsewhere, where nothing but the files is shared. A share
recovers the environment for itself, walks over every n-th branch, looks at the records below these, and hands over what
it saw. Shares are joined into a tree only when all of them are of the log as the joining process found it.

Example: a root with the branches 0 to 126, three shares: the second walks over 1, 4, ..., 124.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from engine.catalog.catalog import Catalog
from engine.cleaner.tracker import UtilizationTracker
from engine.db.config import EnvironmentConfig
from engine.db.extinction import ExtinctRecords
from engine.db.parts import EnvironmentParts
from engine.errors import DamageError, FormatError
from engine.events import SILENT, Listener, counted_in_parts
from engine.evictor.evictor import Evictor
from engine.format.entry.node import LEVEL_MASK
from engine.format.lsn import NULL_LSN, file_of, parse_lsn
from engine.log.access import LogAccess
from engine.log.check import FileCheck
from engine.log.files import LogFiles
from engine.log.tail import find_end
from engine.recovery.manager import Recovery
from engine.storage.base import Storage
from engine.tree.comparators import SortKey
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.tree.keys import UnknownOrderError
from engine.tree.spill import Spill
from engine.verify import tree_rules as rules
from engine.verify.catalogue import DatabaseCatalog
from engine.verify.collector import Collector, FoundPart
from engine.verify.log import FileResult
from engine.verify.missing_file_refs import OF_RECOVERY, LostFile, LostFiles
from engine.verify.node_reader import NodeReader
from engine.verify.obsolete import ObsoleteOffsets, next_summary
from engine.verify.records import RecordCheck
from engine.verify.report import Finding
from engine.verify.space import UTILIZATION, SpaceCheck
from engine.verify.tree import NOTHING_WALKED, Ids, Part, PendingChild, Seen, ShareOfTrees, TreeWalk, Visitor
from engine.workers.parallel import map_small
from engine.workers.spill_file import SpillFile

# Nodes between two reports of progress.
_TOLD_NODES: Final = 256
# A tree of two levels with fewer branches is not worth the start of a process.
_SHARED_BRANCHES: Final = 16
_LOW: Final = 2
# Of fewer nodes the records are looked at in one process; before them the walk takes so much of the time.
_SHARED_NODES: Final = 200
_WALK_PART: Final = 0.7
Walked = TypeVar("Walked")
LEVELS: Final = ("tree", "refs", "data", "space")


class Observer(Protocol):
    """Looks on while trees are walked over."""

    def begin(self, db: DatabaseState) -> None:
        """The tree of a database follows; it may be empty."""

    def visit(self, db: DatabaseState, node: IN) -> None:
        """A node of it, parents first."""


class TreeReport(NamedTuple):
    """What was found in the trees.

    Attributes:
        recovered: False when recovery failed, so that nothing could be walked.
        databases, nodes, records: what was walked over.
        not_checked: databases that could not be checked completely, with the reason.
        lost: what the trees hold in log files that are not there, by file number.
    """

    findings: tuple[Finding, ...]
    recovered: bool
    databases: int
    nodes: int
    records: int
    not_checked: tuple[str, ...]
    lost: Mapping[int, LostFile]


def walk_share(
    storage: Storage, files: LogFiles, levels: Sequence[str], number: int, count: int
) -> ShareOfTrees | None:
    """Walk over one share of the trees; None where recovery fails, which ``verify_trees`` reports.

    Raises:
        UnsupportedError, StorageError: as ``verify_trees``.
    """
    found: list[ShareOfTrees] = []

    def prepare(check: _Check) -> None:
        _follow(check, levels)
        if "space" in levels:
            check.compare_space(files, {})
        check.share = number, count

    def taken(check: _Check) -> TreeReport:
        found.append(check.run_share())
        return _unwalked()

    _recovered(storage, files, None, SILENT, prepare, run=taken)
    return found[0] if found else None


def verify_trees(
    storage: Storage,
    files: LogFiles,
    levels: Sequence[str],
    *,
    jobs: int = 1,
    comparators: Mapping[str, SortKey] | None = None,
    recovered: Callable[[EnvironmentParts], None] | None = None,
    listener: Listener = SILENT,
    results: Sequence[FileResult] = (),
    shares: Sequence[ShareOfTrees] = (),
) -> TreeReport:
    """Check the trees of an environment.

    Arguments:
        storage, files: the environment and its log files. A restore marker among them is passed over: whether the
            records are whole is what an operator wants to know then.
        levels: ``tree``, ``refs`` (which walks over the trees too), ``data`` (which follows references too), and
            ``space`` (which walks over the trees too, and over the headers of the log).
        jobs: processes that walk over large trees and read the log.
        comparators: sort keys by Java class name.
        recovered: looks at the recovered environment, after the walk.
        listener: hears ``trees`` steps in thousandths of databases.
        results: what is known of files that were read from end to end.
        shares: of these levels, where somebody else has walked over branches of the trees.

    Raises:
        UnsupportedError: a file is of a log version that this program does not read.
        StorageError: a file cannot be read.
    """

    def prepare(check: _Check) -> None:
        check.jobs = jobs
        _follow(check, levels)
        check.take_over(shares)
        if "space" in levels:
            checks = {one.file.number: one.check for one in results if one.check is None or one.check.has_sizes}
            check.compare_space(files, checks)

    return _recovered(storage, files, comparators, listener, prepare, recovered)


def _follow(check: _Check, levels: Sequence[str]) -> None:
    if "refs" in levels or "data" in levels:
        check.follow_references(data="data" in levels)


def lost_files(storage: Storage, files: LogFiles, *, listener: Listener = SILENT) -> Mapping[int, LostFile] | None:
    """What the trees hold in log files that are not there, by file number; None when recovery fails.

    The trees are walked over only when the summary of a missing file still stands: it was not cleaned, or a crash came
    before that was on record. Gaps in the log of a healthy server so cost no more than a recovery. Where the order of a
    database is not known, nothing is known to be lost.

    Raises:
        UnsupportedError, StorageError: as ``verify_trees``.
    """
    if files.is_whole() or not files.files:
        return {}
    # Files can be missing at the front, too: those of a server that has cleaned its first ones, or that were deleted.
    suspects = (files.missing(), files.files[0].number)
    found = _recovered(storage, files, None, listener, lambda check: check.only_for(*suspects))
    # Where recovery itself came upon one, that is the answer.
    return found.lost if found.recovered or found.not_checked or found.lost else None


def recover_only(
    storage: Storage,
    files: LogFiles,
    recovered: Callable[[EnvironmentParts], None],
    *,
    comparators: Mapping[str, SortKey] | None = None,
    listener: Listener = SILENT,
) -> TreeReport:
    """Recover an environment for a check that walks over no tree; arguments and errors as for ``verify_trees``."""
    walked = _unwalked()._replace(recovered=True)
    return _recovered(storage, files, comparators, listener, lambda _: None, recovered, lambda _: walked)


def walk_trees(storage: Storage, files: LogFiles, observer: Observer, *, listener: Listener = SILENT) -> TreeReport:
    """Walk over the trees of an environment, checking their structure, with somebody who looks on.

    Arguments:
        storage, files: the environment and its log files.
        observer: told of every database that is walked over and every node that can be read.
        listener: hears ``trees`` steps in databases.

    Raises:
        UnsupportedError, StorageError: as ``verify_trees``.
    """
    return _recovered(storage, files, None, listener, lambda parts: parts.observers.append(observer))


def _recovered(
    storage: Storage,
    files: LogFiles,
    comparators: Mapping[str, SortKey] | None,
    listener: Listener,
    prepare: Callable[[_Check], None],
    recovered: Callable[[EnvironmentParts], None] | None = None,
    run: Callable[[_Check], TreeReport] | None = None,
) -> TreeReport:
    """Recover in memory, prepare a check, and run it."""
    findings = Collector(files)
    access = LogAccess(storage, files.files)
    ctx = TreeContext(access)
    # Nothing may be logged here: changed nodes that the cache cannot hold have to go elsewhere.
    ctx.spill = Spill()
    try:
        tail = find_end(storage, files._replace(marker=None), listener)
        recovery = Recovery(ctx, tail, comparators or {}, listener, keeper=Evictor(ctx))
        catalog = recovery.run()
        for changed in recovery.result.changed:
            findings.add(rules.CHANGED_ENTRY, str(changed), lsn=NULL_LSN)
    except DamageError as error:
        findings.add(rules.NOT_RECOVERED, str(error), lsn=NULL_LSN)
        _close(ctx)
        return _unwalked(findings=tuple(findings.all()), lost=_needed(error, files))
    except UnknownOrderError as error:
        _close(ctx)
        return _unwalked(not_checked=(f"trees ({error.what}: {error.found})",))
    try:
        check = _Check(ctx, catalog, recovery, findings)
        prepare(check)
        report = check.run(listener) if run is None else run(check)
        if recovered is not None:
            config = EnvironmentConfig(read_only=True)
            recovered(EnvironmentParts(config, ctx, catalog, UtilizationTracker(ctx), recovery.result, listener))
        return report
    finally:
        _close(ctx)


def _unwalked(
    *, findings: tuple[Finding, ...] = (), not_checked: tuple[str, ...] = (), lost: Mapping[int, LostFile] | None = None
) -> TreeReport:
    return TreeReport(
        findings=findings, recovered=False, databases=0, nodes=0, records=0, not_checked=not_checked, lost=lost or {}
    )


def _needed(error: DamageError, files: LogFiles) -> dict[int, LostFile]:
    """The missing file that recovery came upon, if that is why it failed."""
    lsn = NULL_LSN if error.lsn is None else parse_lsn(error.lsn)
    if lsn == NULL_LSN or any(file.number == file_of(lsn) for file in files.files):
        return {}
    return {file_of(lsn): LostFile(1, 0, lsn, OF_RECOVERY)}


def _close(ctx: TreeContext) -> None:
    ctx.access.close()
    if ctx.spill is not None:
        ctx.spill.close()


class _Check:
    """One check of one recovered environment."""

    def __init__(self, ctx: TreeContext, catalog: Catalog, recovery: Recovery, findings: Collector) -> None:
        result = recovery.result
        self._ctx = ctx
        self._end_lsn = result.end_lsn
        self._catalog = catalog
        self._findings = findings
        self._catalogue = DatabaseCatalog(ctx, catalog, result.renamed, findings)
        self._may_be_gone = ExtinctRecords(ctx, catalog).may_be_gone
        self._lost = LostFiles(ctx.access, self._may_be_gone)
        self._ids = Ids(result.ids.node)
        reader = NodeReader(ctx, findings, self._lost, result.end_lsn)
        self._walk = TreeWalk(ctx.access, reader, findings, self._ids, catalog.initial_log_version)
        self._told: Callable[[int, float], None] = _report_nothing
        # Of the tree that is walked over.
        self._share = 0.0
        self._at_rest = result.last_entry_is_ckpt_end
        self._space: SpaceCheck | None = None
        self._log: tuple[LogFiles, Mapping[int, FileCheck | None]] | None = None
        self._records: RecordCheck | None = None
        self._spill: SpillFile | None = None
        self._is_flushed = True
        self._visitors: list[Visitor] = [self._catalogue.visit, self._lost.visit]
        self._suspects: tuple[Sequence[int], int] | None = None
        # By database what others have seen below all of its branches.
        self._given: dict[int, dict[int, Part]] = {}
        self._shared: dict[int, dict[int, Part]] = {}
        self.share: tuple[int, int] | None = None
        self.jobs = 1
        self.observers: list[Observer] = []

    def only_for(self, gaps: Sequence[int], before: int) -> None:
        """Walk over nothing unless one of these files has a summary, or one of a lower number than ``before``."""
        self._suspects = gaps, before

    def follow_references(self, *, data: bool) -> None:
        """Check what the slots lead to as well."""
        obsolete = ObsoleteOffsets(self._ctx, _utilization(self._catalog))
        records = RecordCheck(self._ctx.access, self._findings, obsolete, self._end_lsn, self._may_be_gone, data=data)
        self._visitors.append(records.visit)
        self._records = records

    def compare_space(self, files: LogFiles, checks: Mapping[int, FileCheck | None]) -> None:
        """Compare the utilization summaries with the log and the trees as well."""
        space = SpaceCheck(self._ctx, self._findings)
        self._space, self._log = space, (files, checks)
        self._visitors.append(space.visit)

    def take_over(self, shares: Sequence[ShareOfTrees]) -> None:
        """Use what others have seen, where all shares are of this log."""
        count = len(shares)
        # One of another end saw other trees, and without one of them a part of each is not known.
        if sorted((one.number, one.of, one.end_lsn) for one in shares) != [
            (number, count, self._end_lsn) for number in range(count)
        ]:
            return
        for one in shares:
            for db_id, parts in one.parts.items():
                self._given.setdefault(db_id, {}).update(parts)

    def run_share(self) -> ShareOfTrees:
        """Walk over the branches of a share."""
        assert self.share is not None
        for db in self._databases():
            if not db.old_duplicates:
                self._walk_one(db)
        return ShareOfTrees(*self.share, self._end_lsn, self._shared)

    def _databases(self) -> list[DatabaseState]:
        """All databases but the two that say which there are; those are walked over."""
        share, self.share = self.share, None
        for db in (self._catalog.naming, self._catalog.mapping):
            self._walk_one(db)
        self.share = share
        # Recovery removes temporary ones (R-REC-60).
        return [db for db in self._catalogue.databases() if not db.temporary]

    def run(self, listener: Listener) -> TreeReport:
        """Walk over everything."""
        if self._suspects is not None and not self._is_suspicious(*self._suspects):
            return _unwalked()._replace(recovered=True)
        databases = self._databases()
        skipped = []
        for done, db in enumerate(databases):

            def told(records: int, share: float, done: int = done) -> None:
                counted_in_parts(listener, "trees", done + share, len(databases), records)

            self._told, self._share = told, 0.0
            told(self._walk.records, 0.0)
            if db.old_duplicates:
                skipped.append(f"database {db.label} (duplicates in the form of JE 3 and 4)")
            else:
                self._walk_one(db)
        counted_in_parts(listener, "trees", len(databases), len(databases), self._walk.records)
        if self._space is not None and self._log is not None:
            files, checks = self._log
            self._space.compare(files, jobs=self.jobs, at_rest=self._at_rest, checks=checks)
        skipped += [f"key order of {name} (its comparator is a Java class)" for name in sorted(self._walk.unordered)]
        walk = self._walk
        return TreeReport(
            findings=tuple(self._findings.all()),
            recovered=True,
            databases=len(databases) + 2,
            nodes=walk.nodes,
            records=walk.records,
            not_checked=tuple(skipped),
            lost=self._lost.found,
        )

    def _is_suspicious(self, gaps: Sequence[int], before: int) -> bool:
        utilization = _utilization(self._catalog)
        if utilization is None:
            return True
        try:
            first = next_summary(self._ctx, utilization, 0)
            if first is not None and first < before:
                return True
            return any(next_summary(self._ctx, utilization, number) == number for number in gaps)
        except (DamageError, FormatError):
            # It may lie in the file that is missing.
            return True

    def _walk_one(self, db: DatabaseState) -> None:
        for observer in self.observers:
            observer.begin(db)
        if self._records is None or self.observers or not self._records.may_wait(db):
            self._walk_over(db)
            return
        ids, told, before = self._ids.copy(), self._told, self._swap()
        # Records are counted on.
        self._walk.swap(before.tally)
        self._told = lambda records, share: told(records, share * _WALK_PART)
        self._spill, self._is_flushed = SpillFile(), True
        try:
            self._records.wait_in(self._spill.waiting)
            is_flushed = self._walk_over(db)
            self._told = told
            is_right = is_flushed and self._are_right(db, self._records, self._spill)
        finally:
            self._records.wait_in(None)
            self._spill.close()
            self._spill = None
        seen = self._swap(before)
        if self.share is not None:
            parts = self._shared.get(db.id, {})
            self._shared[db.id] = {place: part._replace(is_flushed=is_right) for place, part in parts.items()}
        elif is_right:
            self._walk.swap()
            self._join(seen)
        else:
            # Once more, and each slot at once, so that what is wrong is reported in its place.
            self._ids.go_back(ids)
            self._walk_over(db)

    def _swap(self, seen: Seen | None = None) -> Seen:
        """Go on from something else that was seen, from nothing by default; what was seen until now."""
        found, tally, lost, space = seen or Seen(None, NOTHING_WALKED, None, None)
        return Seen(
            self._findings.swap(found),
            self._walk.swap(tally),
            self._lost.swap(lost),
            None if self._space is None else self._space.swap(space),
        )

    def _join(self, seen: Seen) -> None:
        """Add what was seen later in the walk."""
        self._findings.join(seen.found or FoundPart([], Counter()))
        self._walk.join(seen.tally)
        self._lost.join(seen.lost or {})
        if self._space is not None and seen.space is not None:
            self._space.join(seen.space)

    def _are_right(self, db: DatabaseState, records: RecordCheck, spill: SpillFile) -> bool:
        """Whether all slots that have waited lead to what they should."""
        names = spill.names()

        def is_right(name: int) -> bool:
            return records.are_right(db, name, spill.take(name))

        # Of a small database all are looked at in less time than a process takes to start.
        jobs = self.jobs if self._walk.nodes >= _SHARED_NODES else 1
        with closing(map_small(is_right, names, jobs)) as answers:
            for done, answer in enumerate(answers, 1):
                if not answer:
                    return False
                self._told(self._walk.records, _WALK_PART + (1 - _WALK_PART) * done / len(names))
        return True

    def _flush(self) -> bool:
        """Flush waiting slots to the shared spill file; False after a flush has failed."""
        self._is_flushed = self._is_flushed and (self._spill is None or self._spill.flush())
        return self._is_flushed

    def _walk_over(self, db: DatabaseState) -> bool:
        """Walk over a tree; False when slots that wait were lost."""
        branches = self._walk.top(db, self._visit)
        # Processes share a tree where that is worth starting them, and where nothing that is seen in one part of it
        # counts in another: not an order that is learned from the keys, not JE's own records.
        is_tall = bool(branches) and branches[0].parent.level & LEVEL_MASK > _LOW
        shared = is_tall or len(branches) >= _SHARED_BRANCHES
        shared = shared and not db.internal and db.order.comparator is None and not self.observers
        if self.share is not None:
            return not shared or bool(self._in_parts(db, branches))
        # What others have seen counts once: where it is not enough, this process looks at everything.
        given = self._given.pop(db.id, {})
        if shared and (self.jobs > 1 or given):
            is_flushed = self._in_parts(db, branches, given)
            if is_flushed is not None:
                return is_flushed
            if self._spill is not None:
                self._spill.clear()
        # From the last to the first, as a stack has them.
        for done, branch in enumerate(reversed(branches)):
            below = self._walk.node(db, branch, self._visit)
            for at, child in enumerate(reversed(below)):
                self._share = (done + at / len(below)) / len(branches)
                self._walk.below(db, [child], self._visit)
        return self._is_flushed

    def _in_parts(
        self, db: DatabaseState, branches: list[PendingChild], given: Mapping[int, Part] | None = None
    ) -> bool | None:
        """Walk over the branches of a tree in several processes, or over those of a share.

        Arguments:
            given: what others have seen below each branch.

        Returns:
            Whether all waiting slots were put; None if several walks find less than one.
        """
        # One file for all processes.
        if self._spill is not None and not self._spill.share():
            return None
        steps: list[PendingChild | Part] = []
        for branch in reversed(branches):
            if len(branches) >= _SHARED_BRANCHES:
                steps.append(branch)
                continue
            # A root of few children: theirs are shared.
            part, below = self._apart(partial(self._walk.node, db, branch, self._visit))
            steps += [part, *reversed(below)]
        shares = [step for step in steps if isinstance(step, PendingChild)]
        if self.share is not None:
            mine = range(self.share[0], len(shares), self.share[1])
            self._shared[db.id] = {place: self._part(db, shares[place]) for place in mine}
            return self._flush()
        walked: Iterator[Part]
        if given and sorted(given) == list(range(len(shares))):
            walked = (given[place] for place in range(len(shares)))
        else:
            walked = map_small(partial(self._part, db), shares, self.jobs)
        parts: list[Part] = []
        records = self._walk.records
        for step in steps:
            parts.append(next(walked) if isinstance(step, PendingChild) else step)
            records += parts[-1].seen.tally.records
            self._told(records, len(parts) / len(steps))
        # A node id in two parts is one that is used twice; which of the nodes has to say so, their order decides.
        if not self._ids.join([part.ids for part in parts]):
            return None
        for part in parts:
            self._join(part.seen)
        return all(part.is_flushed for part in parts)

    def _part(self, db: DatabaseState, branch: PendingChild) -> Part:
        """Walk over all that hangs on one branch."""
        return self._apart(partial(self._walk.below, db, [branch], self._visit))[0]

    def _apart(self, walk: Callable[[], Walked]) -> tuple[Part, Walked]:
        """Walk, and hand over what was seen apart from everything else."""
        # The parts together are told, by the process that asked for them.
        told, self._told = self._told, _report_nothing
        before = self._swap()
        self._ids.begin_part()
        result = walk()
        part = Part(self._swap(before), self._ids.end_part(), self._flush())
        self._told = told
        return part, result

    def _visit(self, db: DatabaseState, node: IN) -> None:
        if self._walk.nodes % _TOLD_NODES == 0:
            self._told(self._walk.records, self._share)
            # What waits in memory is bounded.
            self._flush()
        for visitor in self._visitors:
            visitor(db, node)
        for observer in self.observers:
            observer.visit(db, node)


def _report_nothing(records: int, share: float) -> None:
    """Ignore progress: the records walked over, and their share of the database."""


def _utilization(catalog: Catalog) -> DatabaseState | None:
    try:
        return catalog.by_name(UTILIZATION)
    except (DamageError, FormatError):
        # The walk over the catalogue says what is damaged.
        return None
