"""One walk over the trees of a recovered environment, running all checks and observers.

Branches of a large tree are walked independently, in several processes or as a share, and their results are joined in
order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from engine.catalog.catalog import Catalog
from engine.db.extinction import ExtinctRecords
from engine.errors import DamageError, FormatError, NotFoundError
from engine.events import Listener, counted_in_parts
from engine.format.entry.node import LEVEL_MASK
from engine.log.check import FileCheck
from engine.log.files import LogFiles
from engine.recovery.result import RecoveryResult
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.verify.collector import Collector, FoundPart
from engine.verify.missing_file_refs import LostFile, LostFiles
from engine.verify.obsolete import ObsoleteOffsets, next_summary
from engine.verify.records import RecordCheck
from engine.verify.report import Finding
from engine.verify.space import UTILIZATION, SpaceCheck
from engine.verify.tree import NOTHING_WALKED, Ids, Part, PendingChild, Seen, ShareOfTrees, TreeWalk, Visitor
from engine.verify.walk.catalogue import DatabaseCatalog
from engine.verify.walk.node_reader import NodeReader
from engine.workers.parallel import map_small
from engine.workers.spill_file import SpillFile

_TOLD_NODES: Final = 256
_SHARED_BRANCHES: Final = 16
_LOW: Final = 2
# With fewer nodes, one process checks the records. The second constant is the walk's part of the total time, for
# progress.
_SHARED_NODES: Final = 200
_WALK_PART: Final = 0.7
Walked = TypeVar("Walked")


class Observer(Protocol):
    """Observes a walk over the trees."""

    def begin(self, db: DatabaseState) -> None:
        """Called before the walk of a database's tree, which may be empty."""

    def visit(self, db: DatabaseState, node: IN) -> None:
        """Called for each node of the tree, parents first."""


class TreeReport(NamedTuple):
    """The results of a check of the trees.

    Attributes:
        recovered: False if recovery failed, so that nothing could be walked.
        databases, nodes, records: amount that was walked.
        not_checked: databases that could not be checked completely, with the reason.
        lost: references of the trees into missing log files, by file number.
    """

    findings: tuple[Finding, ...]
    recovered: bool
    databases: int
    nodes: int
    records: int
    not_checked: tuple[str, ...]
    lost: Mapping[int, LostFile]


def unwalked(
    *, findings: tuple[Finding, ...] = (), not_checked: tuple[str, ...] = (), lost: Mapping[int, LostFile] | None = None
) -> TreeReport:
    """The report if no tree was walked."""
    return TreeReport(
        findings=findings, recovered=False, databases=0, nodes=0, records=0, not_checked=not_checked, lost=lost or {}
    )


class TreeCheck:
    """A check of a recovered environment.

    Arguments:
        ctx, catalog, result: the recovered environment.
        findings: receives the findings.
        told_nodes: nodes between two reports of progress.
        shared_branches: a tree of two levels with fewer branches is not worth starting processes.

    Attributes:
        share: number of the share to walk, and number of shares; None for everything.
        jobs: processes that walk over large trees and read the log.
        observers: called with databases and nodes.
        only: the name of the only database to walk over besides the catalogue; None for all.
    """

    def __init__(
        self,
        ctx: TreeContext,
        catalog: Catalog,
        result: RecoveryResult,
        findings: Collector,
        *,
        told_nodes: int = _TOLD_NODES,
        shared_branches: int = _SHARED_BRANCHES,
    ) -> None:
        self._told_nodes = told_nodes
        self._shared_branches = shared_branches
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
        # The finished part of the current tree, from 0 to 1.
        self._share = 0.0
        self._at_rest = result.last_entry_is_ckpt_end
        self._space: SpaceCheck | None = None
        self._log: tuple[LogFiles, Mapping[int, FileCheck | None]] | None = None
        self._records: RecordCheck | None = None
        self._spill: SpillFile | None = None
        self._is_flushed = True
        self._visitors: list[Visitor] = [self._catalogue.visit, self._lost.visit]
        self._suspects: tuple[Sequence[int], int] | None = None
        # Results of other processes by database and branch.
        self._given: dict[int, dict[int, Part]] = {}
        self._shared: dict[int, dict[int, Part]] = {}
        self.share: tuple[int, int] | None = None
        self.jobs = 1
        self.observers: list[Observer] = []
        self.only: str | None = None

    def only_for(self, gaps: Sequence[int], before: int) -> None:
        """Skip the walk unless a utilization summary exists for one of the files ``gaps``, or for a file below
        ``before``.
        """
        self._suspects = gaps, before

    def follow_references(self, *, data: bool) -> None:
        """Also check the records that slots refer to."""
        obsolete = ObsoleteOffsets(self._ctx, _utilization(self._catalog))
        records = RecordCheck(self._ctx.access, self._findings, obsolete, self._end_lsn, self._may_be_gone, data=data)
        self._visitors.append(records.visit)
        self._records = records

    def compare_space(self, files: LogFiles, checks: Mapping[int, FileCheck | None]) -> None:
        """Also compare the utilization summaries with the log and the trees."""
        space = SpaceCheck(self._ctx, self._findings)
        self._space, self._log = space, (files, checks)
        self._visitors.append(space.visit)

    def take_over(self, shares: Sequence[ShareOfTrees]) -> None:
        """Use the results of other processes, if the shares are complete and match this log."""
        count = len(shares)
        # Every share is needed, since each holds a part of every large tree. A share with another end of the log walked
        # over other trees.
        if sorted((one.number, one.of, one.end_lsn) for one in shares) != [
            (number, count, self._end_lsn) for number in range(count)
        ]:
            return
        for one in shares:
            for db_id, parts in one.parts.items():
                self._given.setdefault(db_id, {}).update(parts)

    def run_share(self) -> ShareOfTrees:
        """Walk the branches of this share."""
        assert self.share is not None
        for db in self._databases():
            if not db.old_duplicates:
                self._walk_one(db)
        return ShareOfTrees(*self.share, self._end_lsn, self._shared)

    def _databases(self) -> list[DatabaseState]:
        """Walk the naming and the mapping tree; returns all other databases."""
        share, self.share = self.share, None
        for db in (self._catalog.naming, self._catalog.mapping):
            self._walk_one(db)
        self.share = share
        # Recovery removes temporary ones (R-REC-60).
        found = [db for db in self._catalogue.databases() if not db.temporary]
        if self.only is None:
            return found
        named = [db for db in found if db.name == self.only]
        # A damaged catalogue may have lost the name, and says so in a finding.
        if not named and not self._findings.has_errors(self._catalog.naming):
            raise NotFoundError(f"no database {self.only!r}", hint="jetool dbs lists the databases")
        return named

    def run(self, listener: Listener) -> TreeReport:
        """Walk over everything."""
        if self._suspects is not None and not self._is_suspicious(*self._suspects):
            return unwalked()._replace(recovered=True)
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
            # The unreadable entry may be in a missing file.
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
            # Walk again and check each slot immediately, so that findings come in tree order.
            self._ids.go_back(ids)
            self._walk_over(db)

    def _swap(self, seen: Seen | None = None) -> Seen:
        """Switch to other results, by default empty ones; returns the previous ones."""
        found, tally, lost, space = seen or Seen(None, NOTHING_WALKED, None, None)
        return Seen(
            self._findings.swap(found),
            self._walk.swap(tally),
            self._lost.swap(lost),
            None if self._space is None else self._space.swap(space),
        )

    def _join(self, seen: Seen) -> None:
        """Append the results of a later part of the walk."""
        self._findings.join(seen.found or FoundPart([], Counter()))
        self._walk.join(seen.tally)
        self._lost.join(seen.lost or {})
        if self._space is not None and seen.space is not None:
            self._space.join(seen.space)

    def _are_right(self, db: DatabaseState, records: RecordCheck, spill: SpillFile) -> bool:
        """Whether all queued slots refer to the right records."""
        names = spill.names()

        def is_right(name: int) -> bool:
            return records.are_right(db, name, spill.take(name))

        # For a small database, checking all slots takes less time than starting a process.
        jobs = self.jobs if self._walk.nodes >= _SHARED_NODES else 1
        with closing(map_small(is_right, names, jobs)) as answers:
            for done, answer in enumerate(answers, 1):
                if not answer:
                    return False
                self._told(self._walk.records, _WALK_PART + (1 - _WALK_PART) * done / len(names))
        return True

    def _flush(self) -> bool:
        """Flush queued slots to the shared spill file; False after a flush has failed."""
        self._is_flushed = self._is_flushed and (self._spill is None or self._spill.flush())
        return self._is_flushed

    def _walk_over(self, db: DatabaseState) -> bool:
        """Walk a tree; False if queued slots were lost."""
        branches = self._walk.top(db, self._visit)
        # Processes share a tree if it is large enough and its parts are independent. That excludes key orders that are
        # learned from the keys, and JE's own databases.
        is_tall = bool(branches) and branches[0].parent.level & LEVEL_MASK > _LOW
        shared = is_tall or len(branches) >= self._shared_branches
        shared = shared and not db.internal and db.order.comparator is None and not self.observers
        if self.share is not None:
            return not shared or bool(self._in_parts(db, branches))
        # Take the results of other processes out of the store: if they are not sufficient, this process walks the whole
        # tree.
        given = self._given.pop(db.id, {})
        if shared and (self.jobs > 1 or given):
            is_flushed = self._in_parts(db, branches, given)
            if is_flushed is not None:
                return is_flushed
            if self._spill is not None:
                self._spill.clear()
        # ``branches`` is a stack, so reversing it gives key order.
        for done, branch in enumerate(reversed(branches)):
            below = self._walk.node(db, branch, self._visit)
            for at, child in enumerate(reversed(below)):
                self._share = (done + at / len(below)) / len(branches)
                self._walk.below(db, [child], self._visit)
        return self._is_flushed

    def _in_parts(
        self, db: DatabaseState, branches: list[PendingChild], given: Mapping[int, Part] | None = None
    ) -> bool | None:
        """Walk the branches of a tree in several processes, or the branches of this share.

        Arguments:
            given: results of other processes for each branch.

        Returns:
            Whether all queued slots were flushed; None if parallel walks cannot replace a single walk.
        """
        # All processes share one spill file.
        if self._spill is not None and not self._spill.share():
            return None
        steps: list[PendingChild | Part] = []
        for branch in reversed(branches):
            if len(branches) >= self._shared_branches:
                steps.append(branch)
                continue
            # The root has few children, so distribute the grandchildren.
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
        # A node id in two parts is used twice; only a single walk in order reports it at the right node.
        if not self._ids.join([part.ids for part in parts]):
            return None
        for part in parts:
            self._join(part.seen)
        return all(part.is_flushed for part in parts)

    def _part(self, db: DatabaseState, branch: PendingChild) -> Part:
        """Walk the subtree of one branch."""
        return self._apart(partial(self._walk.below, db, [branch], self._visit))[0]

    def _apart(self, walk: Callable[[], Walked]) -> tuple[Part, Walked]:
        """Call ``walk``; returns its results separately from everything before."""
        # The parent process reports progress for all parts.
        told, self._told = self._told, _report_nothing
        before = self._swap()
        self._ids.begin_part()
        result = walk()
        part = Part(self._swap(before), self._ids.end_part(), self._flush())
        self._told = told
        return part, result

    def _visit(self, db: DatabaseState, node: IN) -> None:
        if self._walk.nodes % self._told_nodes == 0:
            self._told(self._walk.records, self._share)
            # Bound the number of queued slots in memory.
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
        # The walk over the catalogue reports the damage.
        return None
