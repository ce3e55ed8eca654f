"""Missing files that are lost, judged by the end of the log.

The file numbers show that files are missing. The last checkpoint gives the first file that recovery reads. Its trees,
read from the log without a recovery, show whether a missing file still has a summary. If a missing file has a summary,
or if these trees cannot be read, the environment is recovered and its trees are walked
(``engine.verify.missing_file_refs``). So on a server whose cleaner deletes files this check costs only a few reads.

What this can miss: JE drops the summary of a missing file when it opens the environment. ``verify --log`` examines the
gaps themselves, and reports a file found here with the same finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from engine.catalog.catalog import Catalog
from engine.errors import DamageError, FormatError, RefusedError, StorageError, UnsupportedError
from engine.events import SILENT, Listener
from engine.format.entry.checkpoint import CkptEnd
from engine.format.entry.db_tree import DbTree
from engine.format.lsn import NULL_LSN, file_of, format_lsn
from engine.log.access import LogAccess
from engine.log.files import LogFiles
from engine.log.tail import find_end, find_last_checkpoint
from engine.storage.base import Storage
from engine.tree.context import TreeContext
from engine.verify.missing_file_refs import LostFile, lost_finding, needed_finding
from engine.verify.obsolete import next_summary
from engine.verify.report import Finding
from engine.verify.space import UTILIZATION
from engine.verify.trees import lost_files

# Files missing from the front that are named one by one.
_MOST_NAMED: Final = 1000


def missing_findings(
    storage: Storage, files: LogFiles, lost: Mapping[int, LostFile] | None = None, *, listener: Listener = SILENT
) -> Iterator[Finding]:
    """Missing files that recovery or the trees need.

    Arguments:
        storage, files: the environment.
        lost: references of the trees into missing files, if the trees were walked.
        listener: receives the steps of recovery, and ``trees`` steps.
    """
    if files.is_whole() or not files.files:
        return
    access = LogAccess(storage, files.files)
    try:
        known = _at_last_checkpoint(access, storage, files)
    finally:
        access.close()
    # If there is damage before the checkpoint is found, the files that recovery reads are unknown.
    needed = _needed(files, known.end) if known.is_found else []
    for number in needed:
        start = "the start of the log" if known.end is None else format_lsn(known.end.first_active_lsn)
        yield needed_finding(number, start)
    if lost is None and known.is_suspicious:
        try:
            lost = lost_files(storage, files._replace(marker=None), listener=listener)
        except (DamageError, RefusedError, StorageError, UnsupportedError):
            # Levels that recover the environment report why recovery fails.
            return
    for number, what in sorted((lost or {}).items()):
        if number not in needed:
            yield lost_finding(number, what)


def _needed(files: LogFiles, end: CkptEnd | None) -> list[int]:
    gaps = set(files.missing())
    first = 0 if end is None or end.first_active_lsn == NULL_LSN else file_of(end.first_active_lsn)
    if end is not None:
        gaps.update(range(first, min(files.files[0].number, first + _MOST_NAMED)))
    return sorted(number for number in gaps if number >= first)


class _LastCheckpoint(NamedTuple):
    """Facts about missing files from the last checkpoint.

    Attributes:
        end: the CkptEnd; None if there is no CkptEnd, or if it is unknown.
        is_found: whether the search reached the last CkptEnd or the start of the log.
        is_suspicious: whether the checkpoint's trees may use a missing file.
    """

    end: CkptEnd | None
    is_found: bool
    is_suspicious: bool


def _at_last_checkpoint(access: LogAccess, storage: Storage, files: LogFiles) -> _LastCheckpoint:
    # The result if an entry cannot be read: the entry may be in a missing file, so the trees must be walked.
    known = _LastCheckpoint(end=None, is_found=False, is_suspicious=True)
    try:
        last = find_last_checkpoint(access, find_end(storage, files._replace(marker=None)))
        if last.ckpt_end_lsn == NULL_LSN:
            known = known._replace(is_found=True)
        else:
            record = access.read(last.ckpt_end_lsn).record()
            known = known._replace(end=record if isinstance(record, CkptEnd) else None, is_found=True)
        root = access.read(last.root_lsn if known.end is None else known.end.root_lsn).record()
        if not isinstance(root, DbTree):
            return known
        ctx = TreeContext(access)
        utilization = Catalog(ctx, root, {}).by_name(UTILIZATION)
        if utilization is None:
            return known
        first = next_summary(ctx, utilization, 0)
        if first is not None and first < files.files[0].number:
            return known
        has_summary = any(next_summary(ctx, utilization, number) == number for number in files.missing())
        return known._replace(is_suspicious=has_summary)
    except (DamageError, FormatError, RefusedError, UnsupportedError, LookupError, ValueError, AssertionError):
        return known
