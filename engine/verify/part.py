"""Checking a part of an environment: some of its log files, or one of its databases.

The report has a ``scope``, and names as not checked whatever the part leaves out: a verdict of it says nothing about
the rest.

* Files are checked as ``verify_log`` checks them: every byte, and the link of each file to the one before it. The end
  of the log is judged if its file is among them; otherwise a file that ends inside an entry is damaged. Missing files,
  rollback periods, gaps in the VLSNs and the root need the whole log.
* A database is found through the two trees of the catalogue, which are walked too. The environment is recovered in
  memory, as for any check of trees; recovery ends at the first bad entry of the last file, so that is judged too.

Example: ``verify_files(storage, files, 1, 3)`` reads three files, and its scope is ``files 0x1..0x3``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from engine.errors import NotFoundError
from engine.events import SILENT, Listener
from engine.log.files import LogFiles
from engine.storage.base import Storage
from engine.tree.comparators import SortKey
from engine.verify.environment import last_files
from engine.verify.log import check_one, verify_log
from engine.verify.repairs import check_repairs
from engine.verify.report import Report
from engine.verify.trees import verify_trees
from engine.workers.parallel import map_small

# The levels that a check of one database may have; each includes the ones before it.
DATABASE_LEVELS: Final = ("tree", "refs", "data")
_NEED_THE_LOG: Final = ("other files", "missing files", "rollback periods", "gaps of VLSNs", "trees and records")
_NEED_ALL_TREES: Final = (
    "other databases",
    "the rest of the log",
    "utilization",
    "replication index",
    "opening for writing",
)


def files_between(storage: Storage, files: LogFiles, first: int, last: int | None) -> LogFiles:
    """The log files from a number to another one, inclusive; None: up to the newest.

    Raises:
        NotFoundError: no file has such a number.
    """
    found = tuple(file for file in files.files if file.number >= first and (last is None or file.number <= last))
    if not found:
        raise NotFoundError(
            "no log file in this range",
            file=storage.root,
            expected=f"files 0x{files.files[0].number:x} to 0x{files.files[-1].number:x}",
            found=f"0x{first:x}.." + (f"0x{last:x}" if last is not None else ""),
        )
    return files._replace(files=found)


def verify_files(
    storage: Storage, files: LogFiles, chosen: LogFiles, *, jobs: int = 1, listener: Listener = SILENT
) -> Report:
    """Check some log files.

    Arguments:
        storage, files: the environment and all of its log files.
        chosen: the files to check, of ``files_between``.
        jobs: how many processes.
        listener: receives ``verify`` steps in bytes.

    Raises:
        UnsupportedError: all of the files are of log versions that this program does not read.
    """
    end_file, total, done, results = files.end_file(), sum(file.size_bytes for file in chosen.files), 0, []
    for result in map_small(partial(check_one, storage, end_file), chosen.files, jobs):
        done += result.file.size_bytes
        listener.step("verify", done, total)
        results.append(result)
    is_end = chosen.files[-1].number >= end_file
    report = verify_log(
        storage, files, levels=("log", "tail") if is_end else ("log",), results=results, part=True, listener=listener
    )
    first, last = chosen.files[0].number, chosen.files[-1].number
    left = [word for word in _NEED_THE_LOG if word != "other files" or len(chosen.files) < len(files.files)]
    return report._replace(
        findings=check_repairs(storage) + report.findings,
        not_checked=(*left, *(() if is_end else ("the end of the log",))),
        scope=f"files 0x{first:x}..0x{last:x}" if first != last else f"file 0x{first:x}",
    )


def verify_database(
    storage: Storage,
    files: LogFiles,
    name: str,
    levels: Sequence[str],
    *,
    jobs: int = 1,
    comparators: Mapping[str, SortKey] | None = None,
    listener: Listener = SILENT,
) -> Report:
    """Check one database, and the catalogue that leads to it.

    Arguments:
        storage, files: the environment and its log files.
        name: the database.
        levels: of ``DATABASE_LEVELS``.
        jobs, comparators, listener: as for ``verify_trees``.

    Raises:
        NotFoundError: there is no such database.
        UnsupportedError, StorageError: as for ``verify_trees``.
    """
    deepest = max(map(DATABASE_LEVELS.index, levels))
    wanted = DATABASE_LEVELS[: deepest + 1]
    found = verify_trees(storage, files, wanted, jobs=jobs, comparators=comparators, listener=listener, only=name)
    # The trees are those of a log that recovery may have cut off.
    end = verify_log(storage, last_files(files), jobs=jobs, levels=("tail",), listener=listener)
    below = tuple(f"{level} of the database" for level in DATABASE_LEVELS[deepest + 1 :])
    return end._replace(
        findings=check_repairs(storage) + end.findings + found.findings,
        checked=("tail", *wanted) if found.recovered else ("tail",),
        not_checked=(*found.not_checked, *below, *_NEED_ALL_TREES),
        databases=found.databases if found.recovered else None,
        nodes=found.nodes if found.recovered else None,
        records=found.records if found.recovered else None,
        scope=f"database {name}",
    )
