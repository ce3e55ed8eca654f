"""Files of changes in a directory; each change is written exactly once.

A file grows as ``changes.part``. When it is large or old enough, it is synced. Then the state of the stream, which
contains the file's name, is replaced, and then the file is renamed. If a run is killed before the state is replaced,
the next run begins the file again; if it is killed after that, the next run renames the file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from engine.errors import RefusedError
from engine.rep.changes.columns import Values
from engine.rep.changes.position import Position
from engine.rep.changes.state_file import StateFile
from engine.storage.base import WriteFile
from engine.storage.disk import DiskStorage
from jetool.commands.stream.column_files import RowFile

STATE: Final = "stream.json"
PART: Final = "changes.part"
LOCK: Final = "stream.lock"
_FILE: Final = "file"
FILE_BYTES: Final = 64 << 20
FILE_SECONDS: Final = 60.0


class CompleteFile(NamedTuple):
    """A complete file, with its first and last commit."""

    path: str
    first_vlsn: int
    last_vlsn: int
    transactions: int
    changes: int
    size_bytes: int


class ChangeFiles:
    """The directory; close it at the end.

    Arguments:
        directory: created if it is missing.
        suffix: of the files.
        file_bytes, file_seconds: size and age at which a file is completed.
        make_rows: factory for files of rows, for formats that do not consist of lines.

    Raises:
        RefusedError: another run writes there, or the directory holds other files.
        StorageError: the directory cannot be written.
    """

    def __init__(
        self,
        directory: str,
        suffix: str,
        file_bytes: int,
        file_seconds: float,
        make_rows: Callable[[Callable[[bytes], None]], RowFile] | None = None,
    ) -> None:
        self._storage = DiskStorage(directory)
        self._suffix = suffix
        self._file_bytes = file_bytes
        self._file_seconds = file_seconds
        self._state = StateFile(self._storage, STATE)
        self._make_rows = make_rows
        self._rows: RowFile | None = None
        self._file: WriteFile | None = None
        self._size = self._first = self._transactions = self._changes = 0
        self._began = time.monotonic()
        self._storage.make_directory("")
        if self._storage.names() and self._storage.stat(LOCK) is None:
            raise RefusedError(
                "the directory is not empty, and no stream has written to it",
                file=directory,
                consequence="nothing was read from the group",
                hint="name a directory that does not exist, or the one of an earlier run",
            )
        # Create the file first, because closing a locked file would release the lock.
        self._storage.open_rw(LOCK, create=True).close()
        self._lock = self._storage.lock(LOCK, 0, exclusive=True)

    def begin(self) -> Position | None:
        """The position to continue from; an unfinished file of the last run is completed or dropped."""
        found = self._state.read()
        position, more = found if found is not None else (None, {})
        self._settle(more)
        return position

    def write(self, vlsn: int, data: bytes) -> None:
        """Write lines of a transaction, or of a retraction.

        Arguments:
            vlsn: the VLSN of its commit, or of the last commit that remains valid.
        """
        self._begin_file(vlsn)
        self._append(data)

    def write_rows(self, vlsn: int, rows: Iterable[Values]) -> None:
        """Write rows of a transaction, or of a retraction; as ``write``."""
        self._begin_file(vlsn)
        assert self._rows is not None
        self._rows.add(rows)

    def _begin_file(self, vlsn: int) -> None:
        if self._file is not None:
            return
        self._file = self._storage.open_rw(PART, create=True)
        self._file.truncate(0)
        self._size = self._transactions = self._changes = 0
        self._first = vlsn
        if self._make_rows is not None:
            self._rows = self._make_rows(self._append)

    def _append(self, data: bytes) -> None:
        assert self._file is not None
        self._file.write(self._size, data)
        self._size += len(data)

    def count(self, changes: int) -> None:
        """Note that a transaction was completely written; ``changes`` is the number of its changes."""
        self._transactions += 1
        self._changes += changes

    @property
    def is_due(self) -> bool:
        """Whether the file is large or old enough, or the saved position is that old."""
        waiting = self._rows.waiting_bytes if self._rows is not None else 0
        return self._size + waiting >= self._file_bytes or time.monotonic() - self._began >= self._file_seconds

    def finish(self, position: Position) -> CompleteFile | None:
        """Complete the file, and save the position; None if nothing was written since the last file.

        Arguments:
            position: the position after everything that was written.
        """
        self._began = time.monotonic()
        if self._file is None:
            self._state.write(position)
            return None
        last = position.last
        assert last is not None
        if self._rows is not None:
            self._rows.finish()
            self._rows = None
        self._file.sync()
        self._file.close()
        self._file = None
        size, self._size = self._size, 0
        name = self._name(last.vlsn)
        self._state.write(position, {_FILE: name})
        self._storage.rename(PART, name)
        self._storage.sync_directory()
        return CompleteFile(
            path=f"{self._storage.root}/{name}",
            first_vlsn=self._first,
            last_vlsn=last.vlsn,
            transactions=self._transactions,
            changes=self._changes,
            size_bytes=size,
        )

    def close(self) -> None:
        """Release the directory; the next run begins an unfinished file again."""
        if self._rows is not None:
            self._rows.abandon()
            self._rows = None
        if self._file is not None:
            self._file.close()
            self._file = None
        self._lock.release()

    def _name(self, vlsn: int) -> str:
        """An unused name; after a retraction, a commit with the same VLSN may arrive again."""
        stem = f"changes-{vlsn:019}"
        names = set(self._storage.names())
        found, number = f"{stem}.{self._suffix}", 1
        while found in names:
            number += 1
            found = f"{stem}-{number}.{self._suffix}"
        return found

    def _settle(self, more: Mapping[str, Any]) -> None:
        if self._storage.stat(PART) is None:
            return
        name = more.get(_FILE)
        # The run was killed after it saved the state that names the file, and before it renamed the file.
        if isinstance(name, str) and name.startswith("changes-") and "/" not in name and not self._storage.stat(name):
            self._storage.rename(PART, name)
            self._storage.sync_directory()
        else:
            self._storage.remove(PART)
