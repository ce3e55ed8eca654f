"""Checking an environment on all levels that were asked for, in one report.

``log`` and ``tail`` read the log from end to end and stop at nothing; ``tree``, ``refs`` and ``data`` recover the
environment in memory and walk over its trees. ``refs`` includes ``tree``, ``data`` includes both. ``tail`` alone reads
the last file only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from engine.events import SILENT, Listener
from engine.log.files import LogFiles
from engine.storage.base import Storage
from engine.tree.keys import SortKey
from engine.verify import log, trees
from engine.verify.log import verify_log
from engine.verify.report import Report
from engine.verify.trees import verify_trees

LEVELS: Final = (*log.LEVELS, *trees.LEVELS)
QUICK: Final = ("tail",)
DEFAULT: Final = log.LEVELS

# What a level is about, in the words of the summary; in its order.
_WORDS: Final = {"refs": "references", "tree": "trees", "data": "data"}
# What ``verify_environment`` leaves out; the replicated side has a check of its own (``engine.verify.rep``).
NOT_REPLICATION: Final = "replication index"
_NEVER: Final = ("utilization", NOT_REPLICATION)


def verify_environment(
    storage: Storage,
    files: LogFiles,
    levels: Sequence[str] = DEFAULT,
    *,
    jobs: int = 1,
    comparators: Mapping[str, SortKey] | None = None,
    listener: Listener = SILENT,
) -> Report:
    """Check an environment.

    Arguments:
        storage, files: the environment and its log files.
        levels: of ``LEVELS``.
        jobs: processes that read the log.
        comparators: sort keys by Java class name.
        listener: hears ``verify`` steps in bytes and ``trees`` steps in databases.

    Raises:
        UnsupportedError: a file is of a log version that this program does not read.
        StorageError: a file cannot be read; the log levels report that as a finding.
    """
    wanted = _with_implied(levels)
    report = Report((), 0, 0, 0, (), ())
    of_log: list[str] = [level for level in log.LEVELS if level in wanted]
    if of_log:
        chosen = files if "log" in wanted else last_files(files)
        report = verify_log(storage, chosen, jobs=jobs, listener=listener, levels=of_log)
    left: tuple[str, ...] = ()
    if "tree" in wanted:
        found = verify_trees(storage, files, wanted, comparators=comparators, listener=listener)
        left = found.not_checked
        report = report._replace(findings=report.findings + found.findings)
        if found.recovered:
            report = report._replace(databases=found.databases, nodes=found.nodes, records=found.records)
        else:
            wanted = of_log
    return report._replace(
        checked=tuple(level for level in LEVELS if level in wanted), not_checked=(*_not_checked(wanted), *left)
    )


def last_files(files: LogFiles) -> LogFiles:
    """The files that hold the end of the log."""
    end = files.end_file()
    return files._replace(files=tuple(file for file in files.files if file.number >= end))


def _with_implied(levels: Sequence[str]) -> list[str]:
    wanted = set(levels)
    if "data" in wanted:
        wanted.add("refs")
    if "refs" in wanted:
        wanted.add("tree")
    return [level for level in LEVELS if level in wanted]


def _not_checked(wanted: Sequence[str]) -> list[str]:
    words = [level for level in log.LEVELS if level not in wanted]
    words.append("bodies of obsolete entries" if "data" in wanted else "bodies")
    return words + [word for level, word in _WORDS.items() if level not in wanted] + list(_NEVER)
