"""The state of each file between the live log and its deletion (R-CLN-31 to R-CLN-33).

``BEING_CLEANED -> CLEANED -> (checkpoint) -> RESERVED -> deleted``. A file without a state is in the live log. If
cleaning fails, or a crash comes before the checkpoint, the file is in the live log again, and is cleaned once more
(R-CLN-45).

A pending LN could not be processed because a transaction had it locked. A file with pending LNs stays CLEANED: the
transaction may abort, and then the tree leads into the file again.
"""

from __future__ import annotations

import threading
from enum import Enum
from typing import NamedTuple

from engine.format.lsn import file_of
from engine.tree.database_state import DatabaseState
from engine.tree.keys import Key


class FileState(Enum):
    """The state of one file."""

    BEING_CLEANED = "being cleaned"
    CLEANED = "cleaned"
    RESERVED = "reserved"


class PendingLN(NamedTuple):
    """A record version that was locked when its file was cleaned."""

    lsn: int
    db: DatabaseState
    key: Key


class ReservedState(NamedTuple):
    """A reserved file: its size, and the last VLSN in it (-1 for none)."""

    size_bytes: int
    last_vlsn: int


class ReservedContents(NamedTuple):
    """The data for the record of a reserved file: VLSNs (-1 for none) and databases (R-CLN-33)."""

    first_vlsn: int
    last_vlsn: int
    db_ids: tuple[int, ...]


class FileStates:
    """The states of all files; every method may be called from any thread.

    Attributes:
        unusable: files that cannot be cleaned, with the reason: damage, or an unknown order of keys.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._in_progress: dict[int, FileState] = {}
        self._cleaned: dict[int, ReservedContents] = {}
        self._reserved: dict[int, ReservedState] = {}
        self._pending: dict[int, PendingLN] = {}
        self.unusable: dict[int, str] = {}

    def begin(self, number: int) -> None:
        """Note that a file is about to be cleaned."""
        with self._mutex:
            self._in_progress[number] = FileState.BEING_CLEANED

    def put_back(self, number: int) -> None:
        """Return a file to the live log, because cleaning failed or was not worth it (R-CLN-31)."""
        with self._mutex:
            self._in_progress.pop(number, None)
            self._pending = {lsn: ln for lsn, ln in self._pending.items() if file_of(lsn) != number}

    def cleaned(self, number: int, found: ReservedContents) -> None:
        """Note that a file has been read to its end."""
        with self._mutex:
            self._in_progress[number] = FileState.CLEANED
            self._cleaned[number] = found

    def add_pending(self, ln: PendingLN) -> None:
        """Note a record version that could not be processed."""
        with self._mutex:
            self._pending[ln.lsn] = ln

    def settled(self, lsn: int) -> None:
        """Remove a pending LN that is dead or has been migrated."""
        with self._mutex:
            self._pending.pop(lsn, None)

    def pending(self) -> list[PendingLN]:
        """The pending LNs in the order of their LSNs."""
        with self._mutex:
            return [self._pending[lsn] for lsn in sorted(self._pending)]

    def ready(self) -> list[int]:
        """The CLEANED files without pending LNs: a checkpoint that begins now releases them (R-CLN-33)."""
        with self._mutex:
            waiting = {file_of(lsn) for lsn in self._pending}
            return [
                n for n, state in sorted(self._in_progress.items()) if state is FileState.CLEANED and n not in waiting
            ]

    def reserve(self, number: int, size_bytes: int, last_vlsn: int) -> None:
        """Note that a file has left the live log."""
        with self._mutex:
            self._in_progress.pop(number, None)
            self._cleaned.pop(number, None)
            self._reserved[number] = ReservedState(size_bytes, last_vlsn)

    def facts_of(self, number: int) -> ReservedContents:
        """The VLSNs and databases found in a CLEANED file."""
        with self._mutex:
            return self._cleaned[number]

    def deleted(self, number: int) -> None:
        """Remove a reserved file that was deleted."""
        with self._mutex:
            self._reserved.pop(number, None)

    def in_progress(self) -> dict[int, FileState]:
        """Files that are being cleaned, or cleaned and not reserved yet."""
        with self._mutex:
            return dict(self._in_progress)

    def reserved(self) -> dict[int, ReservedState]:
        """The reserved files, ascending."""
        with self._mutex:
            return dict(sorted(self._reserved.items()))

    def is_reserved(self, number: int) -> bool:
        """Whether a file has left the live log."""
        return number in self._reserved

    def pending_in(self, number: int) -> int:
        """The number of pending LNs in a file."""
        with self._mutex:
            return sum(file_of(lsn) == number for lsn in self._pending)
