"""Checks that a disk has room for the output of a command."""

from __future__ import annotations

from engine.errors import StorageError, plural
from engine.storage.base import Storage


def require_room(storage: Storage, needed: int, what: str, *, consequence: str, hint: str) -> None:
    """Refuse before the first byte is written if the disk of a storage has not enough room.

    Arguments:
        needed: number of bytes.
        what: a description of the output, in words.

    Raises:
        StorageError: fewer bytes are free. If the system does not report the free space, nothing is refused.
    """
    free = storage.free_bytes()
    if free is not None and free < needed:
        raise StorageError(
            f"there is no room for {what}",
            file=storage.root,
            expected=f"{plural(needed, 'byte')} free",
            found=plural(free, "byte"),
            consequence=consequence,
            hint=hint,
        )
