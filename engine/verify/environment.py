"""Checking an environment on all requested levels, in one report.

``log`` reads the log from end to end and continues after damage; ``tail``, which it includes, reads the last file. If a
file is missing and the log does not show why, ``log`` also walks over the trees, because only they show whether the
file is lost.

``tail`` also looks for lost files, as far as the last checkpoint shows them (``engine.verify.missing_files``).

``tree``, ``refs``, ``data`` and ``space`` recover the environment in memory and walk over its trees: ``refs`` and
``space`` include ``tree``, ``data`` includes ``refs``. ``data`` also opens the environment for writing, in memory
(``engine.verify.walk.dry_open``), unless a process has it open for writing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from engine.db.parts import EnvironmentParts
from engine.errors import RefusedError, StorageError, UnsupportedError
from engine.events import SILENT, Listener
from engine.log.files import LOCK_FILE, WRITER_BYTE, LogFiles
from engine.storage.base import Storage
from engine.tree.comparators import SortKey
from engine.verify import log, log_rules, record_rules, rep_rules, space_rules, tree_rules, trees
from engine.verify.log import FileResult, check_all, unsupported_findings, verify_log
from engine.verify.missing_file_refs import LostFile
from engine.verify.missing_files import missing_findings
from engine.verify.repairs import RULE as REPAIR_RULE
from engine.verify.repairs import check_repairs
from engine.verify.report import ERROR, Finding, Report, Rule
from engine.verify.tree import ShareOfTrees
from engine.verify.trees import preparation, recover_and_check, recover_only, verify_trees, walk_share
from engine.verify.walk.check import TreeCheck, TreeReport
from engine.verify.walk.dry_open import OpenAttempt, has_damage, open_dry

LEVELS: Final = (*log.LEVELS, *trees.LEVELS)
QUICK: Final = ("tail",)
DEFAULT: Final = log.LEVELS

# The rules that each level checks.
RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "log": (*(rule for rule in log_rules.RULES if not rule.code.startswith("JE-TAIL")), rep_rules.GAP),
    "tail": (
        *(rule for rule in log_rules.RULES if rule.code.startswith("JE-TAIL")),
        log_rules.MISSING_NEEDED,
        log_rules.TWO_WRITERS,
    ),
    "tree": tree_rules.RULES,
    "refs": tuple(rule for rule in record_rules.RULES if rule.code.startswith("JE-REF")),
    "data": tuple(rule for rule in record_rules.RULES if rule.code.startswith("JE-DATA")),
    "space": space_rules.RULES,
    "rep": rep_rules.REP_RULES,
    "secondary": tuple(rule for rule in record_rules.RULES if rule.code.startswith("JE-SEC")),
}
# Rules that are checked at every level, before the rules of the level.
ALWAYS: Final = (REPAIR_RULE,)

# The name of each level in the summary, in the order of the summary.
_WORDS: Final = {"refs": "references", "tree": "trees", "data": "data", "space": "utilization"}
# The replication index, which ``engine.verify.rep`` checks and ``verify_environment`` does not.
NOT_REPLICATION: Final = "replication index"


def verify_environment(
    storage: Storage,
    files: LogFiles,
    levels: Sequence[str] = DEFAULT,
    *,
    jobs: int = 1,
    comparators: Mapping[str, SortKey] | None = None,
    listener: Listener = SILENT,
    results: Sequence[FileResult] | None = None,
    shares: Sequence[ShareOfTrees] = (),
    recovered: Callable[[EnvironmentParts], None] | None = None,
) -> Report:
    """Check an environment.

    Arguments:
        storage, files: the environment and its log files.
        levels: of ``LEVELS``.
        jobs: processes that read the log and walk over large trees.
        comparators: sort keys by Java class name.
        listener: receives ``verify`` steps in bytes and ``trees`` steps in thousandths of databases.
        results: results of ``engine.verify.log.check_one`` for ``files_to_read``, if other processes have read them.
        shares: results of ``share_of_trees``, if other processes have walked over the trees.
        recovered: called with the recovered environment, even if no tree is walked.

    Raises:
        UnsupportedError: all files are of log versions that this program does not read, or it cannot recover the log.
        StorageError: a file cannot be read; the log levels report that as a finding.
    """
    wanted = _with_implied(levels)
    of_log: list[str] = [level for level in log.LEVELS if level in wanted]
    chosen = files_to_read(files, wanted)
    if of_log and results is None:
        # Counts by type are needed for comparing the log with the trees.
        results = check_all(storage, chosen, jobs, listener, with_sizes="space" in wanted)
    prepare = preparation(files, wanted, jobs=jobs, results=results or (), shares=shares)
    tree_levels = _TreeLevels(
        storage, files, wanted, prepare, jobs=jobs, comparators=comparators, listener=listener, recovered=recovered
    )
    # The log levels need the walk too if a file may be lost.
    lost = _LostFiles(storage, files, tree_levels.walked, listener, is_walked="tree" in wanted)
    report = _log_report(storage, chosen, of_log, results, lost, jobs, listener)
    report, found, problem = tree_levels.run(report)
    if of_log and "log" not in of_log:
        if found is not None and "tree" in wanted:
            lost.learn(found)
        report = _plus(report, lost.at_end())
    report, left = tree_levels.joined(report, found)
    if "tree" in wanted and (found is None or not found.recovered):
        # Only the log was checked; ``not_checked`` below names the other levels with the reason.
        wanted = of_log
        problem = problem or ("" if left else "recovery fails")
    return report._replace(
        # An unfinished repair comes first, because all other findings then describe a half-repaired state.
        findings=check_repairs(storage) + report.findings,
        checked=tuple(level for level in LEVELS if level in wanted),
        not_checked=(*_not_checked(wanted, problem), *left),
    )


def _log_report(
    storage: Storage,
    files: LogFiles,
    levels: Sequence[str],
    results: Sequence[FileResult] | None,
    lost: _LostFiles,
    jobs: int,
    listener: Listener,
) -> Report:
    """The report of the log levels; empty if no log level is wanted."""
    if not levels:
        return Report((), 0, 0, 0, (), ())
    return verify_log(
        storage,
        files,
        jobs=jobs,
        listener=listener,
        levels=levels,
        results=results,
        lost=lost.in_trees,
        lost_at_end=lost.at_end,
    )


class _TreeLevels:
    """The levels that recover the environment and walk over its trees. Arguments: those of ``verify_environment``, with
    all wanted levels, and ``prepare``, which sets what the walk checks.
    """

    def __init__(
        self,
        storage: Storage,
        files: LogFiles,
        wanted: Sequence[str],
        prepare: Callable[[TreeCheck], None],
        *,
        jobs: int,
        comparators: Mapping[str, SortKey] | None,
        listener: Listener,
        recovered: Callable[[EnvironmentParts], None] | None,
    ) -> None:
        self._storage = storage
        self._files = files
        self._wanted = wanted
        self._jobs = jobs
        self._comparators = comparators
        self._listener = listener
        self._prepare = prepare
        self._recovered = recovered
        self._report: TreeReport | None = None
        # The result of opening for writing; None if that was not tried.
        self._opening: OpenAttempt | None = None

    def walked(self) -> TreeReport:
        """The results of the walk, which is made once. Errors as for ``verify_trees``."""
        if self._report is None:
            self._report = self._opened() or recover_and_check(
                self._storage,
                self._files,
                self._prepare,
                jobs=self._jobs,
                comparators=self._comparators,
                recovered=self._recovered,
                listener=self._listener,
            )
        return self._report

    def _opened(self) -> TreeReport | None:
        """The results of a walk while the environment was being opened for writing; None if there was none."""
        if "data" not in self._wanted or self._opening is not None or _is_open(self._storage):
            return None
        self._opening = open_dry(
            self._storage,
            self._files,
            self._prepare,
            jobs=self._jobs,
            comparators=self._comparators,
            recovered=self._recovered,
            listener=self._listener,
        )
        return self._opening.trees

    def run(self, report: Report) -> tuple[Report, TreeReport | None, str]:
        """Recover and walk. Returns the log report, the tree report, and the problem that prevented the walk ("" for
        none).

        Raises:
            RefusedError, StorageError, UnsupportedError: the walk failed, and the log shows no damage.
        """
        try:
            if "tree" in self._wanted:
                return report, self.walked(), ""
            if self._recovered is not None:
                found = recover_only(
                    self._storage,
                    self._files,
                    self._recovered,
                    jobs=self._jobs,
                    comparators=self._comparators,
                    listener=self._listener,
                )
                return report, found, ""
        except (RefusedError, StorageError, UnsupportedError) as error:
            if isinstance(error, UnsupportedError):
                report = _plus(report, self._beside_unsupported(report))
            # If the log has errors, report them; otherwise the exception is the only result.
            if not report.count(ERROR):
                raise
            return report, None, error.what
        return report, None, ""

    def _beside_unsupported(self, report: Report) -> Iterator[Finding]:
        """The findings that remain if a level failed on a file of an unsupported version: those about such files, and
        those of the levels that do not fail.
        """
        if "log" not in self._wanted:
            read = {one.file for one in report.findings if one.code == log_rules.UNSUPPORTED.code}
            yield from (one for one in unsupported_findings(self._storage, self._files) if one.file not in read)
        found: dict[Finding, None] = {}
        for level in trees.LEVELS:
            if level in self._wanted:
                with suppress(RefusedError, StorageError, UnsupportedError):
                    walked = verify_trees(
                        self._storage, self._files, _with_implied((level,)), comparators=self._comparators
                    )
                    found.update(dict.fromkeys(walked.findings))
        yield from found

    def joined(self, report: Report, found: TreeReport | None) -> tuple[Report, tuple[str, ...]]:
        """Add the tree findings to the report; returns it with the names of unchecked parts."""
        if found is None:
            return report, ()
        left = found.not_checked
        report = _plus(report, found.findings)
        # If the trees are damaged, damage that stops a writer is not reported: the findings about the trees cover it,
        # and are more precise.
        if found.recovered and "data" in self._wanted and not has_damage(found):
            opening = self._opening
            # A process that has opened it meanwhile may have deleted files during the check.
            if opening is None or _is_open(self._storage):
                left = (*left, "opening for writing (a process has the environment open for writing)")
            elif opening.problem:
                left = (*left, f"opening for writing (je.properties: {opening.problem})")
            elif opening.damage is not None:
                report = _plus(report, [opening.damage])
        if found.recovered and "tree" in self._wanted:
            report = report._replace(databases=found.databases, nodes=found.nodes, records=found.records)
        return report, left


class _LostFiles:
    """References of the trees into missing files, for the levels of the log.

    Arguments:
        walked: walks over the trees.
        is_walked: whether the trees are walked in any case.
    """

    def __init__(
        self,
        storage: Storage,
        files: LogFiles,
        walked: Callable[[], TreeReport],
        listener: Listener,
        *,
        is_walked: bool,
    ) -> None:
        self._storage = storage
        self._files = files
        self._walked = walked
        self._listener = listener
        self._is_walked = is_walked
        self._known: Mapping[int, LostFile] | None = None

    def learn(self, found: TreeReport) -> None:
        """Remember the result of a walk; only the first one counts."""
        if self._known is None:
            self._known = found.lost

    def in_trees(self, unclear: bool) -> Mapping[int, LostFile] | None:
        """As ``engine.verify.log.AskForLost``."""
        if self._files.is_whole() or (not unclear and not self._is_walked):
            return {}
        try:
            found = self._walked()
        except (RefusedError, StorageError, UnsupportedError):
            # Continue with the log; without the trees it is unknown what a missing file held.
            return None
        self.learn(found)
        # If recovery failed, ``lost`` names only the file at which it stopped; other files are unknown.
        return found.lost if found.recovered else None

    def at_end(self) -> Iterator[Finding]:
        """As ``engine.verify.log.LostAtEnd``."""
        return missing_findings(self._storage, self._files, self._known, listener=self._listener)


def _is_open(storage: Storage) -> bool:
    """Whether a process has the environment open for writing; its cleaner may delete files at any moment."""
    return storage.stat(LOCK_FILE) is not None and storage.lock_holder(LOCK_FILE, WRITER_BYTE) is not None


def _plus(report: Report, more: Iterable[Finding]) -> Report:
    return report._replace(findings=(*report.findings, *more))


def share_of_trees(
    storage: Storage, files: LogFiles, levels: Sequence[str], number: int, count: int
) -> ShareOfTrees | None:
    """Walk over one share of the trees, for ``verify_environment`` of the same levels.

    Raises:
        UnsupportedError, StorageError: as ``verify_environment``.
    """
    return walk_share(storage, files, _with_implied(levels), number, count)


def files_to_read(files: LogFiles, levels: Sequence[str]) -> LogFiles:
    """The files that the log levels read from end to end; none if no log level is wanted."""
    if "log" in levels:
        return files
    return last_files(files) if "tail" in levels else files._replace(files=())


def last_files(files: LogFiles) -> LogFiles:
    """The files that hold the end of the log."""
    end = files.end_file()
    return files._replace(files=tuple(file for file in files.files if file.number >= end))


def _with_implied(levels: Sequence[str]) -> list[str]:
    wanted = set(levels)
    if "log" in wanted:
        wanted.add("tail")
    if "data" in wanted:
        wanted.add("refs")
    if "refs" in wanted or "space" in wanted:
        wanted.add("tree")
    if "tree" in wanted:
        # The trees are as recovery leaves them, and recovery ends at the first bad entry of the last file.
        wanted.add("tail")
    return [level for level in LEVELS if level in wanted]


def _not_checked(wanted: Sequence[str], problem: str) -> list[str]:
    """Descriptions of unchecked levels, with the problem if the trees could not be walked."""
    words = [level for level in log.LEVELS if level not in wanted]
    words.append("bodies of obsolete entries" if "data" in wanted else "bodies")
    unchecked = {level: word for level, word in _WORDS.items() if level not in wanted}
    if problem and "tree" in unchecked:
        unchecked["tree"] += f" ({problem})"
    return [*words, *unchecked.values(), NOT_REPLICATION]
