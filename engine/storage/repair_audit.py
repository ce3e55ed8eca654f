"""Does an interrupted repair explain the current files? If not, another program has written since.

Between two of its steps a repair, or its undo, leaves files in which every byte is either the old byte or a byte that
the repair wrote. This holds however the run ended: killed, or by a power failure, after which any part of the unsynced
data may be missing. The journal has both versions. A byte that is neither, a log file longer than the repair made it,
or an additional log file was written by another program, which may have been told that its data is durable.

Zeros are always accepted: a write of the repair may be lost although a write to a later place in the file survived.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.storage.base import ReadFile, Storage
from engine.storage.journal import CREATED, WRITTEN, Place, log_lengths, opened

_BLOCK: Final = 4096


class _File(NamedTuple):
    """The journal's data about a file: its greatest length, and by block the entries with bytes in it."""

    longest: int
    blocks: dict[int, list[Place]]


def unexplained(storage: Storage, backup: Storage, manifest: dict[str, object], places: list[Place]) -> str | None:
    """The path of a file to which another program has written; None if there is no such file.

    Arguments:
        storage: the directory of the environment or database.
        backup: the backup directory.
        manifest: the manifest of the repair.
        places: the entries of the journal.
    """
    files = _by_file(places)
    before = manifest.get("before")
    for path, length in log_lengths(storage).items():
        if path not in files and isinstance(before, dict) and before.get(path) != length:
            return path
    journal = opened(backup)
    try:
        for path, found in files.items():
            if storage.stat(path) is not None and not _is_explained(storage, path, found, journal):
                return path
    finally:
        journal.close()
    return None


def _by_file(places: list[Place]) -> dict[str, _File]:
    found: dict[str, _File] = {}
    for place in places:
        known = found.get(place.path, _File(0, {}))
        end = max(place.offset + place.size, 0 if place.kind in (CREATED, WRITTEN) else place.length)
        for block in range(place.offset // _BLOCK, -(-(place.offset + place.size) // _BLOCK)):
            known.blocks.setdefault(block, []).append(place)
        found[place.path] = known._replace(longest=max(known.longest, end))
    return found


def _is_explained(storage: Storage, path: str, found: _File, journal: ReadFile) -> bool:
    file = storage.open(path)
    try:
        if file.size() > found.longest:
            return False
        return all(
            _is_block_explained(file.read(block * _BLOCK, _BLOCK), block * _BLOCK, places, journal)
            for block, places in found.blocks.items()
        )
    finally:
        file.close()


def _is_block_explained(current: bytes, start: int, places: list[Place], journal: ReadFile) -> bool:
    """Whether every byte of a block is zero, or equals the byte of an entry at that place."""
    open_at = {at for at, value in enumerate(current) if value}
    for place in reversed(places):
        first, end = max(place.offset, start), min(place.offset + place.size, start + len(current))
        if first < end and open_at:
            data = journal.read(place.at + first - place.offset, end - first)
            if data == current[first - start : end - start]:
                open_at.difference_update(range(first - start, end - start))
            else:
                open_at -= {first - start + at for at, value in enumerate(data) if current[first - start + at] == value}
    return not open_at
