"""Whether a disk has room for what a command is about to write."""

from __future__ import annotations

from engine.errors import StorageError, plural
from engine.storage.base import Storage


def require_room(storage: Storage, needed: int, what: str, *, consequence: str, hint: str) -> None:
    """Refuse before the first byte when the disk of a storage has no room.

    Arguments:
        needed: bytes.
        what: they are for, in words.

    Raises:
        StorageError: fewer are free. Where the system does not say how many are, nothing is refused.
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
