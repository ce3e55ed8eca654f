"""Undoing a repair: restores every byte from the journal.

Undo only writes given bytes at given places, so it can be run again from the start: if it was interrupted, the next run
completes it. It is journalled like the repair: the marker is in place and the manifest has the state ``undoing`` before
the first byte changes, and both are updated when all changes are durable.

Data written by other programs is never undone. After a finished repair this is checked by the digests, after an
interrupted one by ``repair_audit``: JE may have opened the files and continued the log.
"""

from __future__ import annotations

import os

from engine.errors import RefusedError
from engine.storage.base import ReadFile, Storage
from engine.storage.journal import (
    CREATED,
    DONE,
    JOURNAL,
    MANIFEST,
    MARKER,
    RUNNING,
    UNDOING,
    UNDONE,
    WRITTEN,
    PendingRepair,
    Place,
    digest_of,
    log_lengths,
    mark,
    opened,
    pending_in,
    places_of,
    read_manifest,
    sync_files,
    unmark,
    write_manifest,
)
from engine.storage.repair_audit import unexplained
from engine.storage.room import require_room


def undo(storage: Storage, backup: Storage, *, force: bool = False) -> int:
    """Restore the state before the repair that a backup directory belongs to; returns the number of entries undone.

    An interrupted undo is completed.

    Arguments:
        storage: the directory of the environment or database.
        backup: the backup directory.
        force: continue even if another program has written since.

    Raises: NotFoundError if there is no journal; DamageError if the journal or the manifest is invalid; without
    ``force`` RefusedError if the files were changed since.
    """
    manifest = read_manifest(backup)
    state = manifest.get("state")
    here, pending = os.path.realpath(backup.root), pending_in(storage)
    if pending is None:
        # The journal is incomplete or missing: the run ended before its first change.
        unmark(storage)
    elif pending.backup != here:
        raise RefusedError(
            f"another repair ({pending.command}) was interrupted",
            file=storage.root,
            found=f"its saved bytes are in {pending.backup}",
            consequence="nothing was changed",
            hint=f"jetool undo {storage.root} --backup-dir {pending.backup}",
        )
    if state == UNDONE:
        return _finish_undo(storage, backup)
    places = places_of(backup)
    if not force:
        _require_ours(storage, backup, manifest, places)
    _require_room(storage, places)
    if state != UNDOING:
        mark(storage, PendingRepair(here, str(manifest.get("command", ""))))
        write_manifest(backup, {**manifest, "state": UNDOING})
    file = opened(backup)
    try:
        # The first entry of a file holds its oldest state, so it is applied last.
        for place in reversed(places):
            if place.kind != WRITTEN:
                _undo_entry(storage, place, file)
    finally:
        file.close()
    sync_files(storage, {place.path for place in places})
    # Written after everything is durable: until then, an undo after a crash has to start again.
    write_manifest(backup, {**manifest, "state": UNDONE})
    _finish_undo(storage, backup)
    return sum(place.kind != WRITTEN for place in places)


def settle(storage: Storage, backup: Storage) -> str | None:
    """Undo the repair that the marker names. A repair that was completed but not reported is undone too.

    Returns: the previous state of the manifest; None if there was nothing to undo.

    Raises: see ``undo``.
    """
    manifest = read_manifest(backup)
    state = manifest.get("state")
    if state == DONE and _changed(storage, manifest) is not None:
        # The repair was done, and the files have been used since.
        unmark(storage)
        return None
    return str(state) if undo(storage, backup) else None


def _finish_undo(storage: Storage, backup: Storage) -> int:
    """The steps after the state ``undone``; returns the number of entries if the journal was not renamed yet."""
    count = 0
    if backup.stat(JOURNAL) is not None:
        count = sum(place.kind != WRITTEN for place in places_of(backup))
        # The name becomes free for the next run; the saved bytes stay.
        backup.rename(JOURNAL, f"{JOURNAL}.undone")
        backup.sync_directory()
    unmark(storage)
    return count


def _require_ours(storage: Storage, backup: Storage, manifest: dict[str, object], places: list[Place]) -> None:
    """Refuse if undo would remove changes of other programs."""
    state = manifest.get("state")
    if state == DONE:
        changed = _changed(storage, manifest)
    else:
        pending = pending_in(storage)
        if pending is None or state not in (RUNNING, UNDOING):
            raise RefusedError(
                "the run that would be undone was interrupted before it changed anything, or its marker is gone",
                file=storage.root,
                expected=f"{MARKER} in it, which names the saved bytes",
                consequence="whatever was done to the files since would be lost",
                hint="when nothing has opened it since, undo with --force",
            )
        changed = unexplained(storage, backup, manifest, places)
    if changed is not None:
        raise RefusedError(
            "files were changed since the run that would be undone",
            file=f"{storage.root}/{changed}",
            consequence="later writes would be lost, and old and new bytes mixed up; nothing was changed",
            hint=f"work on a copy: undo --force takes back all the same; without {MARKER} the files count as they are",
        )


def _require_room(storage: Storage, places: list[Place]) -> None:
    """Refuse if the disk has no room for the growth of the files."""
    ends: dict[str, int] = {}
    for place in places:
        if place.kind != WRITTEN:
            # The first entry of a file has its oldest length.
            ends.setdefault(place.path, 0 if place.kind == CREATED else place.length)
    sizes = {path: found.size_bytes if (found := storage.stat(path)) is not None else 0 for path in ends}
    require_room(
        storage,
        sum(end - sizes[path] for path, end in ends.items()),
        "the saved bytes",
        consequence="nothing was changed, and the saved bytes are kept",
        hint="make room, then run the command again",
    )


def _changed(storage: Storage, manifest: dict[str, object]) -> str | None:
    """A file that differs from the state after a finished repair; None if there is no such file."""
    files, after = manifest.get("files"), manifest.get("after")
    if not isinstance(files, dict):
        return MANIFEST
    lengths = log_lengths(storage)
    known = after if isinstance(after, dict) else lengths
    changed = [str(path) for path in {**lengths, **known} if lengths.get(path) != known.get(path)]
    changed += [str(path) for path, digest in files.items() if digest_of(storage, path) != digest]
    return changed[0] if changed else None


def _undo_entry(storage: Storage, place: Place, journal: ReadFile) -> None:
    if place.kind == CREATED:
        if storage.stat(place.path) is not None:
            storage.remove(place.path)
        return
    # A removed file is created again by the first of its entries.
    file = storage.open_rw(place.path, create=True)
    try:
        if place.size:
            file.write(place.offset, journal.read(place.at, place.size))
        if file.size() != place.length:
            file.truncate(place.length)
    finally:
        file.close()
