"""Checking trees, references, data and utilization: everything that ``verify --tree --refs --data --space`` does.

The environment is recovered in memory, as by a reader: nothing is changed, and the check sees the state that JE would
see after opening it. First the naming and the mapping tree are walked, then the tree of every database they name, JE's
own included. Temporary databases are left out: recovery removes them (R-REC-60).

Memory holds recovery's data within the default cache, one path of a tree, a bit per node id, and bounded lists, so it
hardly depends on the size of the environment.

Branches of a large tree are walked independently, and their results are joined in order. Forked processes do that on
this machine; ``walk_share`` does it on other machines, which share only the files. Each of the n
shares recovers the environment in memory for itself, walks every n-th branch with the records below it, and returns
its results. Shares are joined only if all of
them saw the same end of the log as the joining process.

Example: a root with the branches 0 to 126, three shares: the second share walks branches 1, 4, ..., 124.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from engine.cleaner.tracker import UtilizationTracker
from engine.db.config import EnvironmentConfig, read_ahead_for
from engine.db.parts import EnvironmentParts
from engine.errors import DamageError
from engine.events import SILENT, Listener
from engine.evictor.evictor import Evictor
from engine.format.lsn import NULL_LSN, file_of, parse_lsn
from engine.log.access import LogAccess
from engine.log.files import LogFiles
from engine.log.tail import find_end
from engine.recovery.manager import Recovery
from engine.storage.base import Storage
from engine.tree.comparators import SortKey
from engine.tree.context import TreeContext
from engine.tree.keys import UnknownOrderError
from engine.tree.spill import Spill
from engine.verify import tree_rules as rules
from engine.verify.collector import Collector
from engine.verify.log import FileResult
from engine.verify.missing_file_refs import OF_RECOVERY, LostFile
from engine.verify.tree import ShareOfTrees
from engine.verify.walk.check import Observer, TreeCheck, TreeReport, unwalked

LEVELS: Final = ("tree", "refs", "data", "space")


def walk_share(
    storage: Storage, files: LogFiles, levels: Sequence[str], number: int, count: int
) -> ShareOfTrees | None:
    """Walk one share of the trees; None if recovery fails, which ``verify_trees`` reports.

    Raises:
        UnsupportedError, StorageError: as ``verify_trees``.
    """
    found: list[ShareOfTrees] = []

    def prepare(check: TreeCheck) -> None:
        _follow(check, levels)
        if "space" in levels:
            check.compare_space(files, {})
        check.share = number, count

    def taken(check: TreeCheck) -> TreeReport:
        found.append(check.run_share())
        return unwalked()

    recover_and_check(storage, files, prepare, taken)
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
    only: str | None = None,
) -> TreeReport:
    """Check the trees of an environment.

    Arguments:
        storage, files: the environment and its log files. A restore marker is ignored: an operator who finds one needs
            to know whether the records are intact.
        levels: ``tree``, ``refs`` (includes ``tree``), ``data`` (includes ``refs``), and ``space`` (includes ``tree``,
            and reads the headers of the log).
        jobs: processes that walk over large trees and read the log.
        comparators: sort keys by Java class name.
        recovered: called with the recovered environment after the walk.
        listener: receives ``trees`` steps in thousandths of databases.
        results: check results of files that were already read from end to end.
        shares: results for the same levels from other processes that have walked branches.
        only: the name of the only database to check, apart from the two of the catalogue.

    Raises:
        NotFoundError: there is no database ``only``.
        UnsupportedError: a file is of a log version that this program does not read.
        StorageError: a file cannot be read.
    """

    prepare = preparation(files, levels, jobs=jobs, results=results, shares=shares, only=only)
    return recover_and_check(
        storage, files, prepare, jobs=jobs, comparators=comparators, recovered=recovered, listener=listener
    )


def preparation(
    files: LogFiles,
    levels: Sequence[str],
    *,
    jobs: int = 1,
    results: Sequence[FileResult] = (),
    shares: Sequence[ShareOfTrees] = (),
    only: str | None = None,
) -> Callable[[TreeCheck], None]:
    """A function that sets what a check does; arguments as for ``verify_trees``."""

    def prepare(check: TreeCheck) -> None:
        check.jobs, check.only = jobs, only
        _follow(check, levels)
        check.take_over(shares)
        if "space" in levels:
            checks = {one.file.number: one.check for one in results if one.check is None or one.check.has_sizes}
            check.compare_space(files, checks)

    return prepare


def _follow(check: TreeCheck, levels: Sequence[str]) -> None:
    if "refs" in levels or "data" in levels:
        check.follow_references(data="data" in levels)


def lost_files(storage: Storage, files: LogFiles, *, listener: Listener = SILENT) -> Mapping[int, LostFile] | None:
    """References of the trees into missing log files, by file number; None if recovery fails.

    The trees are walked only if a missing file still has a summary: it was not cleaned, or a crash came before the
    cleaning was logged. So if a healthy server's log has gaps, the check costs only a recovery. A database with an
    unknown key order contributes no lost records.

    Raises:
        UnsupportedError, StorageError: as ``verify_trees``.
    """
    if files.is_whole() or not files.files:
        return {}
    # Files can also be missing at the front, because they were cleaned or deleted.
    suspects = (files.missing(), files.files[0].number)
    found = recover_and_check(storage, files, lambda check: check.only_for(*suspects), listener=listener)
    # If recovery failed on a missing file, that file is the result.
    return found.lost if found.recovered or found.not_checked or found.lost else None


def recover_only(
    storage: Storage,
    files: LogFiles,
    recovered: Callable[[EnvironmentParts], None],
    *,
    jobs: int = 1,
    comparators: Mapping[str, SortKey] | None = None,
    listener: Listener = SILENT,
) -> TreeReport:
    """Recover an environment for a check without a walk; arguments and errors as for ``verify_trees``."""
    walked = unwalked()._replace(recovered=True)
    return recover_and_check(
        storage,
        files,
        lambda _: None,
        lambda _: walked,
        jobs=jobs,
        comparators=comparators,
        recovered=recovered,
        listener=listener,
    )


def walk_trees(storage: Storage, files: LogFiles, observer: Observer, *, listener: Listener = SILENT) -> TreeReport:
    """Walk the trees of an environment with an observer, checking their structure.

    Arguments:
        storage, files: the environment and its log files.
        observer: called for every database and every readable node.
        listener: receives ``trees`` steps in databases.

    Raises:
        UnsupportedError, StorageError: as ``verify_trees``.
    """
    return recover_and_check(storage, files, lambda check: check.observers.append(observer), listener=listener)


def recover_and_check(
    storage: Storage,
    files: LogFiles,
    prepare: Callable[[TreeCheck], None],
    run: Callable[[TreeCheck], TreeReport] | None = None,
    *,
    jobs: int = 1,
    comparators: Mapping[str, SortKey] | None = None,
    recovered: Callable[[EnvironmentParts], None] | None = None,
    listener: Listener = SILENT,
) -> TreeReport:
    """Recover in memory, then check.

    Arguments:
        storage, files, comparators, recovered, listener: as for ``verify_trees``.
        prepare: sets what the check does.
        run: runs the check; None: completely.
        jobs: processes that recovery may use.

    Raises:
        UnsupportedError, StorageError: as ``verify_trees``.
    """
    ahead = read_ahead_for(jobs)
    findings = Collector(files)
    access = LogAccess(storage, files.files)
    ctx = TreeContext(access)
    # Nothing may be logged here, so changed nodes that exceed the cache go to a scratch file.
    ctx.spill = Spill()
    try:
        tail = find_end(storage, files._replace(marker=None), listener)
        recovery = Recovery(ctx, tail, comparators or {}, listener, keeper=Evictor(ctx), read_ahead_bytes=ahead)
        catalog = recovery.run()
        for changed in recovery.result.changed:
            findings.add(rules.CHANGED_ENTRY, str(changed), lsn=NULL_LSN)
    except DamageError as error:
        findings.add(rules.NOT_RECOVERED, str(error), lsn=NULL_LSN)
        _close(ctx)
        return unwalked(findings=tuple(findings.all()), lost=_needed(error, files))
    except UnknownOrderError as error:
        _close(ctx)
        return unwalked(not_checked=(f"trees ({error.what}: {error.found})",))
    try:
        check = TreeCheck(ctx, catalog, recovery.result, findings)
        prepare(check)
        report = check.run(listener) if run is None else run(check)
        if recovered is not None:
            config = EnvironmentConfig(read_only=True)
            recovered(EnvironmentParts(config, ctx, catalog, UtilizationTracker(ctx), recovery.result, listener))
        return report
    finally:
        _close(ctx)


def _needed(error: DamageError, files: LogFiles) -> dict[int, LostFile]:
    """The missing file that made recovery fail, if any."""
    lsn = NULL_LSN if error.lsn is None else parse_lsn(error.lsn)
    if lsn == NULL_LSN or any(file.number == file_of(lsn) for file in files.files):
        return {}
    return {file_of(lsn): LostFile(1, 0, lsn, OF_RECOVERY)}


def _close(ctx: TreeContext) -> None:
    ctx.access.close()
    if ctx.spill is not None:
        ctx.spill.close()
