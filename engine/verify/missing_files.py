"""Files that are missing and lost, as the end of the log shows it.

The numbers of files show that some are gone. The last checkpoint says from which file on recovery reads, and its trees,
read from the log without a recovery, say whether a missing file still has a summary. Only where one has, or where that
cannot be read, the environment is recovered and its trees are walked over (``engine.verify.missing_file_refs``). So a
server whose cleaner deletes files pays for a few reads.

What this can miss: JE drops the summary of a missing file when it opens the environment. ``verify --log`` goes by the
gaps themselves, and says of a file that is found here what is said here.
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
    """Files that recovery or the trees need and that are not there.

    Arguments:
        storage, files: the environment.
        lost: what the trees hold in missing files, where they were walked over.
        listener: hears recovery, and ``trees`` steps.
    """
    if files.is_whole() or not files.files:
        return
    access = LogAccess(storage, files.files)
    try:
        known = _at_last_checkpoint(access, storage, files)
    finally:
        access.close()
    # What recovery reads is not known where its way to the checkpoint is damaged.
    needed = _needed(files, known.end) if known.is_found else []
    for number in needed:
        start = "the start of the log" if known.end is None else format_lsn(known.end.first_active_lsn)
        yield needed_finding(number, start)
    if lost is None and known.is_suspicious:
        try:
            lost = lost_files(storage, files._replace(marker=None), listener=listener)
        except (DamageError, RefusedError, StorageError, UnsupportedError):
            # Levels that recover the environment say why it cannot be.
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
    """What the last checkpoint says of missing files.

    Attributes:
        end: its CkptEnd; None if it has none, or is unknown.
        is_found: whether the log was read as far as the last CkptEnd, or from the end to the start.
        is_suspicious: whether a missing file may be in use by the trees that it names.
    """

    end: CkptEnd | None
    is_found: bool
    is_suspicious: bool


def _at_last_checkpoint(access: LogAccess, storage: Storage, files: LogFiles) -> _LastCheckpoint:
    # What cannot be read may lie in a missing file.
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
