"""Find the backup from which a point is restored.

A point is restored from the oldest backup whose log reaches it: the later a backup is, the more of the files in use at
that point may have been deleted by the cleaner. Files that had been deleted before that backup come from earlier
backups that contain them in full. An earlier backup must belong to the same log: an environment that was restored to a
point writes new files with numbers that it used before. So both backups must share a later file with the same bytes.

If a backup does not hold the point, or lacks data in use at it, the next one is tried. A backup does not hold a time, a
VLSN or an LSN after its end, since it lacks the commits between its end and the point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engine.backup.manifest import BackupFile, Manifest
from engine.backup.repository import Repository, beginning_digest
from engine.backup.view import BackupView
from engine.errors import DamageError, JetoolError, NotFoundError, RefusedError, UsageError
from engine.events import SILENT, Listener
from engine.format.lsn import format_lsn
from engine.rescue.points import LSN, TIME, VLSN, Point
from engine.rescue.truncation import TruncationPlan, plan_truncation


class Chosen(NamedTuple):
    """A backup, and where its log is cut for a point; None when all of it is restored.

    Attributes:
        passed_over: backups that reach the point but cannot be used for it, with the reason.
    """

    manifest: Manifest
    cut: TruncationPlan | None
    passed_over: tuple[tuple[str, JetoolError], ...]


def choose(repository: Repository, made: str | None, point: Point | None, listener: Listener = SILENT) -> Chosen:
    """The backup that is restored.

    Arguments:
        made: the id of the backup; None for the newest, or for the oldest that holds the point.
        point: None restores all of it.

    Raises:
        NotFoundError: there is no backup, or none holds the point. UsageError: there are backups of several
            environments, and the caller names no backup. RefusedError: files that were in use at the point are in none.
        DamageError, UnsupportedError, StorageError: a file of the backup cannot be read.
    """
    if made is not None:
        manifest = repository.read(made)
        return Chosen(manifest, _cut(repository, manifest, point, listener), ())
    listed = repository.backups()
    found = [one.manifest for one in listed if one.manifest is not None]
    if not found:
        what = "no backup that can be used" if listed else "no backup yet"
        raise NotFoundError(what, file=repository.root, hint="jetool backup list shows the backups")
    sources = sorted({one.source for one in found})
    if len(sources) > 1:
        raise UsageError(
            "there are backups of several environments", found=", ".join(sources), hint="name one with --backup ID"
        )
    if point is None:
        return Chosen(found[-1], None, ())
    candidates = [one for one in found if _reaches(one, point)]
    if not candidates:
        raise _beyond(found[-1], repository, point)
    passed_over: list[tuple[str, JetoolError]] = []
    for manifest in candidates:
        try:
            whole = _with_earlier_files(repository, manifest, found)
            return Chosen(whole, _cut(repository, whole, point, listener), tuple(passed_over))
        except (NotFoundError, RefusedError, DamageError) as error:
            passed_over.append((manifest.id, error))
    # Report why the oldest backup cannot be used: later backups hold less data of that time.
    raise passed_over[0][1]


def _with_earlier_files(repository: Repository, manifest: Manifest, manifests: Sequence[Manifest]) -> Manifest:
    """A backup completed with files from earlier backups that had been deleted when it was taken."""
    files = {file.number: file for file in manifest.files}
    for earlier in reversed([one for one in manifests if one.id < manifest.id]):
        shared = [file for file in earlier.files if file.number in files]
        if not shared or not _is_beginning(repository, shared[-1], files[shared[-1].number]):
            continue
        # The last file of a backup may have grown afterwards, so its copy may be incomplete.
        for file in earlier.files[:-1]:
            if file.number < shared[-1].number:
                files.setdefault(file.number, file)
    return manifest._replace(files=tuple(files[number] for number in sorted(files)))


def _is_beginning(repository: Repository, earlier: BackupFile, later: BackupFile) -> bool:
    """Whether a file is the same in both backups, or the beginning of the later file."""
    if earlier.sha256 == later.sha256:
        return True
    return (
        earlier.size_bytes < later.size_bytes
        and beginning_digest(repository, later, earlier.size_bytes) == earlier.sha256
    )


def _cut(repository: Repository, manifest: Manifest, point: Point | None, listener: Listener) -> TruncationPlan | None:
    if point is None:
        return None
    if not _reaches(manifest, point):
        raise _beyond(manifest, repository, point)
    return plan_truncation(BackupView(repository, manifest.files, manifest.id), point, listener)


def _reaches(manifest: Manifest, point: Point) -> bool:
    """Whether the log of a backup may reach a point."""
    if point.kind == LSN:
        return point.value <= manifest.end_lsn
    if point.kind == VLSN:
        return point.value <= manifest.vlsns[1]
    if point.kind == TIME:
        # A backup that began after that time holds everything that was committed by then.
        last = manifest.last_commit_ms
        return point.value < manifest.began_ms or (last is not None and point.value <= last)
    return True


def _beyond(manifest: Manifest, repository: Repository, point: Point) -> NotFoundError:
    return NotFoundError(
        f"no backup goes as far as {point.text}",
        file=repository.root,
        found=f"backup {manifest.id}, whose log ends at {format_lsn(manifest.end_lsn)}",
        consequence="nothing was restored",
        hint="leave the point out to restore the end of the newest backup; jetool backup list shows how far each goes",
    )
