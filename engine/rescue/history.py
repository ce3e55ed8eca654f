"""A read-only view of an environment as it was at a point of its log.

The log up to the point is a view (``points.as_of``) that is recovered in memory, so databases that were created,
renamed or removed since appear as they were. Files that the cleaner has deleted since cannot be restored, but the trees
of that time may lead into them. If a file is missing, the trees are walked, and a point that needs it is refused with
the *horizon*: the oldest end of a checkpoint from which on every needed file exists. Later points do not need more of
the old files, so the horizon is found by binary search.
"""

from __future__ import annotations

from engine.errors import DamageError, RefusedError
from engine.events import SILENT, Listener
from engine.format.entry_types import CKPT_END
from engine.format.lsn import format_lsn
from engine.log.entry import LogEntry
from engine.log.files import LogFiles, list_log_files
from engine.log.scan import scan_log
from engine.rescue.points import Cut, Point, as_of, find_cut
from engine.storage.base import Storage
from engine.storage.truncated_view import CutStorage
from engine.verify.missing_file_refs import LostFile
from engine.verify.trees import walk_trees


def view_at(storage: Storage, point: Point, listener: Listener = SILENT) -> tuple[CutStorage, Cut]:
    """The environment as it was at a point, and the end of its log there.

    Raises:
        NotFoundError: no such point. RefusedError: no transaction ends before it; or needed files were deleted.
    """
    files = list_log_files(storage)
    cut = find_cut(storage, files, point, listener)
    view = as_of(storage, cut.end_lsn)
    if files.missing() or files.files[0].number:
        lost = lost_at(view, listener)
        if lost is None or lost:
            raise _beyond(storage, files, point, cut, listener)
    return view, cut


def lost_at(view: Storage, listener: Listener = SILENT) -> dict[int, LostFile] | None:
    """References of the trees of an environment into missing files; None if recovery needs such a file."""
    try:
        found = walk_trees(view, list_log_files(view), _SilentVisitor(), listener=listener)
    except DamageError:
        return None
    return dict(found.lost) if found.recovered else None


def horizon_of(storage: Storage, files: LogFiles, listener: Listener = SILENT) -> int | None:
    """The oldest end of a checkpoint from which on every needed file exists; None if the last one lacks a file."""
    ends = [
        item.lsn + item.total_bytes
        for item in scan_log(storage, files).entries()
        if isinstance(item, LogEntry) and item.type_number == CKPT_END
    ]
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high) // 2
        if lost_at(as_of(storage, ends[middle]), listener) == {}:
            high = middle
        else:
            low = middle + 1
    return ends[low] if low < len(ends) else None


def _beyond(storage: Storage, files: LogFiles, point: Point, cut: Cut, listener: Listener) -> RefusedError:
    horizon = horizon_of(storage, files, listener)
    return RefusedError(
        f"files that were in use at {point.text} have been deleted since",
        file=storage.root,
        lsn=format_lsn(cut.end_lsn),
        consequence="the output would be incomplete",
        hint="a backup of then has them"
        if horizon is None
        else f"the oldest point for which every file is there is lsn:{format_lsn(horizon)}",
    )


class _SilentVisitor:
    """A visitor for walks over trees that requests nothing."""

    def begin(self, db: object) -> None:
        """The tree of a database follows."""

    def visit(self, db: object, node: object) -> None:
        """A node of it."""
