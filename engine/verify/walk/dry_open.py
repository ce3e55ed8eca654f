"""Opening an environment for writing, in memory, as ``jetool recover -n`` does: part of the level ``data``.

The trees are those that recovery leaves in memory, and a recovery that only reads shows them as well. A writer does
more: it reads the records of reserved files, undoes unfinished transactions along their chains, finishes removals,
opens the VLSN index and takes a checkpoint. Entries that contradict each other in these steps are damage, even if each
can be read. Example: the transaction id of one record is changed and its checksum made right, so that the chain of an
open transaction leads to a record of another transaction (JE-DATA-006).

One recovery serves both checks. The writer recovers; before its first change the trees are checked as they are then;
then the writer continues. Two kinds of environments are recovered again for the check of the trees:

* The writer refuses or fails before its first change: a restore marker, committed work after a bad entry, an unknown
  order of keys, damage that a reader tolerates.
* Transactions stay open for a master or a coordinator to end them. A reader undoes them, and the trees are checked as
  a reader sees them.

If the trees are damaged, the writer does not continue: findings about trees are more precise than where it stops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from engine.db.config import EnvironmentConfig, RecoveredParts, read_ahead_for
from engine.db.environment import Environment
from engine.db.memory import default_cache_bytes
from engine.db.parts import EnvironmentParts
from engine.errors import DamageError, FormatError, RefusedError, UnsupportedError, UsageError
from engine.events import SILENT, Listener
from engine.format.lsn import NULL_LSN, file_of, parse_lsn
from engine.log.files import LogFiles, list_log_files
from engine.storage.base import Storage
from engine.storage.overlay import OverlayStorage
from engine.storage.truncated_view import CutStorage
from engine.tree.comparators import SortKey
from engine.verify import record_rules
from engine.verify.collector import Collector
from engine.verify.report import ERROR, Finding, finding
from engine.verify.walk.check import TreeCheck, TreeReport

# The processes that walk copy a part of the cache: with 430 MB they took 480 MB for a log of 3 GB, with this 340 MB.
_MOST_CACHE_BYTES: Final = 256 << 20
# Codes of damage in trees and records.
_OF_TREES: Final = ("JE-TREE", "JE-DB", "JE-REF", "JE-DATA")


class OpenAttempt(NamedTuple):
    """The result of opening an environment for writing in memory.

    Attributes:
        trees: the check of the trees; None if they were not checked.
        damage: what stops a writer; None if nothing does, or if other reasons than damage prevent opening.
        problem: what is wrong with ``je.properties``, so that opening was not tried; empty if it can be read.
    """

    trees: TreeReport | None
    damage: Finding | None
    problem: str = ""


class _DamagedTreesError(Exception):
    """Ends an opening whose trees are damaged."""


def has_damage(found: TreeReport) -> bool:
    """Whether the trees are damaged; utilization and secondaries do not count."""
    return any(one.severity == ERROR and one.code.startswith(_OF_TREES) for one in found.findings)


def open_dry(
    storage: Storage,
    files: LogFiles,
    prepare: Callable[[TreeCheck], None],
    *,
    jobs: int = 1,
    comparators: Mapping[str, SortKey] | None = None,
    recovered: Callable[[EnvironmentParts], None] | None = None,
    listener: Listener = SILENT,
) -> OpenAttempt:
    """Open an environment for writing in memory, and check its trees before the writer's first change.

    Other reasons than damage that prevent opening are not reported: another writer, an interrupted repair, committed
    work after a bad entry, an unknown log version or order of keys.

    Arguments:
        storage: the environment; nothing in it is changed.
        files: the log files when they were listed; the writer sees each with the length that it had then.
        prepare: sets what the check of the trees does.
        jobs: processes that recovery may use; the check of the trees has its own number.
        comparators: sort keys by Java class name.
        recovered: called with the recovered environment after the check of the trees.
        listener: receives the steps of recovery, of the check (``trees``) and of the writer's checkpoint.

    Raises:
        StorageError: a file cannot be read.
    """
    lengths: dict[str, int | None] = {file.path: None for file in list_log_files(storage).files}
    lengths |= {file.path: file.size_bytes for file in files.files}
    look = _TreesBeforeWriting(files, prepare, recovered, listener)
    config = EnvironmentConfig(
        comparators=comparators or {},
        before_writing=look,
        cache_bytes=min(default_cache_bytes(), _MOST_CACHE_BYTES),
        read_ahead_bytes=read_ahead_for(jobs),
    )
    damage, problem = None, ""
    try:
        Environment(OverlayStorage(CutStorage(storage, lengths)), config, listener).close()
    except (DamageError, FormatError) as error:
        if look.failed:
            raise
        damage = _stops_writer(error, files)
    except (RefusedError, UnsupportedError):
        if look.failed:
            raise
    except UsageError as error:
        if look.failed:
            raise
        problem = error.what
    except _DamagedTreesError:
        # The report names the damage.
        pass
    return OpenAttempt(look.report, damage, problem)


class _TreesBeforeWriting:
    """Checks the trees between recovery and the writer's first change; arguments as for ``open_dry``.

    Attributes:
        report: the results; None if the trees were not checked.
        failed: whether the check itself ended with an error.
    """

    def __init__(
        self,
        files: LogFiles,
        prepare: Callable[[TreeCheck], None],
        recovered: Callable[[EnvironmentParts], None] | None,
        listener: Listener,
    ) -> None:
        self._files = files
        self._prepare = prepare
        self._recovered = recovered
        self._listener = listener
        self.report: TreeReport | None = None
        self.failed = False

    def __call__(self, parts: RecoveredParts) -> None:
        assert isinstance(parts, EnvironmentParts)
        if parts.recovery.resurrected:
            return
        self.failed = True
        check = TreeCheck(parts.ctx, parts.catalog, parts.recovery, Collector(self._files))
        self._prepare(check)
        report = check.run(self._listener)
        if self._recovered is not None:
            self._recovered(parts)
        self.report, self.failed = report, False
        if has_damage(report):
            raise _DamagedTreesError


def _stops_writer(error: DamageError | FormatError, files: LogFiles) -> Finding:
    lsn = NULL_LSN if error.lsn is None else parse_lsn(error.lsn)
    paths = [file.path for file in files.files if lsn != NULL_LSN and file.number == file_of(lsn)]
    return finding(record_rules.NOT_OPENED, str(error), lsn=lsn, file=error.file or "".join(paths))
