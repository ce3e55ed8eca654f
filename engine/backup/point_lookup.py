"""Which backup a point is restored from.

Of the backups whose log goes as far as the point the oldest is taken: the later one is, the more of the files that were
in use at that point may have been cleaned away. Files that had been deleted when it was taken come from earlier backups
that have them whole. Those must be of the same log: an environment that was restored to a point goes on with numbers
that files of its former life have. So a later file that both have, with the same bytes, has to show it.

A backup that turns out not to hold the point, or not all that was in use at it, is passed over for the next one. A
time, a VLSN or an LSN that lies after the end of a backup is not in it: what committed between them is in no file of
that backup, so nothing that it holds is the state of then.
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
        passed_over: backups that go as far as the point and cannot be used for it, with the reason.
    """

    manifest: Manifest
    cut: TruncationPlan | None
    passed_over: tuple[tuple[str, JetoolError], ...]


def choose(repository: Repository, made: str | None, point: Point | None, listener: Listener = SILENT) -> Chosen:
    """The backup that is restored.

    Arguments:
        made: its id; None for the newest, or for the oldest that holds the point.
        point: None restores all of it.

    Raises:
        NotFoundError: there is no backup, or none holds the point. UsageError: there are backups of several
            environments, and none is named. RefusedError: files that were in use at the point are in none.
        DamageError, UnsupportedError, StorageError: a file of the backup cannot be read.
    """
    if made is not None:
        manifest = repository.read(made)
        return Chosen(manifest, _cut(repository, manifest, point, listener), ())
    listed = repository.backups()
    found = [one.manifest for one in listed if one.manifest is not None]
    if not found:
        what = "no backup that can be used" if listed else "no backup yet"
        raise NotFoundError(what, file=repository.root, hint="jetool backup list shows what there is")
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
    # That of the oldest says most: later ones have less of then.
    raise passed_over[0][1]


def _with_earlier_files(repository: Repository, manifest: Manifest, manifests: Sequence[Manifest]) -> Manifest:
    """A backup with the files of earlier ones that had been deleted when it was taken."""
    files = {file.number: file for file in manifest.files}
    for earlier in reversed([one for one in manifests if one.id < manifest.id]):
        shared = [file for file in earlier.files if file.number in files]
        if not shared or not _is_beginning(repository, shared[-1], files[shared[-1].number]):
            continue
        # The last file of a backup may have gone on afterwards: what it has of it need not be all.
        for file in earlier.files[:-1]:
            if file.number < shared[-1].number:
                files.setdefault(file.number, file)
    return manifest._replace(files=tuple(files[number] for number in sorted(files)))


def _is_beginning(repository: Repository, earlier: BackupFile, later: BackupFile) -> bool:
    """Whether a file is the same in both, or the beginning of the later one."""
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
    """Whether the log of a backup may go as far as a point."""
    if point.kind == LSN:
        return point.value <= manifest.end_lsn
    if point.kind == VLSN:
        return point.value <= manifest.vlsns[1]
    if point.kind == TIME:
        # What had committed by then was logged before a backup that began later.
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
