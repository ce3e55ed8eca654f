"""Changes to files that must not be written, stored as files of another directory, for readers in other processes.

Reads see the changes; the storage below is used only for reading and for the locks of readers. A file is copied before
its first change, and a new file is created only in the directory, so memory does not grow with the changes. Log files
below that appear or grow later are not visible: the cover shows one moment. The list of visible files is stored in a
file of the directory that is written last; a directory without this list is not a valid cover.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from engine.errors import NotFoundError
from engine.storage.base import Lock, ReadFile, Stat, Storage, WriteFile
from engine.storage.overlay import NoLock, WrappedStorage
from engine.storage.truncated_view import CutStorage

_SHOWN: Final = "shown.json"
_COPIED_BYTES: Final = 1 << 20


class CoverStorage(WrappedStorage):
    """A storage whose changes are stored in another storage.

    Arguments:
        base: the storage below.
        cover: the storage of the changes.
        shown: by path, the length of each file below that has the suffix and is visible; None for a finished cover,
            which holds this list.
        suffix: suffix of the files that appear and disappear below.

    Raises:
        NotFoundError: the cover is not finished.
    """

    def __init__(
        self, base: Storage, cover: Storage, shown: Mapping[str, int] | None = None, suffix: str = ".jdb"
    ) -> None:
        if shown is None:
            file = cover.open(_SHOWN)
            shown = json.loads(file.read(0, file.size()))
            file.close()
        assert shown is not None
        super().__init__(CutStorage(base, shown))
        self._shown = dict(shown)
        self._cover = cover
        self._suffix = suffix

    def finish(self) -> None:
        """Mark the cover as complete. Nothing may be changed afterwards."""
        file = self._cover.open_rw(f"{_SHOWN}.tmp", create=True)
        file.write(0, json.dumps(self._shown).encode())
        file.close()
        self._cover.rename(f"{_SHOWN}.tmp", _SHOWN)

    def names(self, path: str = "") -> list[str]:
        prefix = f"{path}/" if path else ""
        below = [name for name in super().names(path) if self._is_seen(prefix + name)]
        # Directories for log files are created only when a file in them is changed.
        made = [] if self._cover.stat(path) is None else self._cover.names(path)
        return sorted({*below, *made} - {_SHOWN})

    def stat(self, path: str = "") -> Stat | None:
        if path:
            return self._cover.stat(path) or (super().stat(path) if self._is_seen(path) else None)
        return super().stat(path)

    def open(self, path: str) -> ReadFile:
        if self._cover.stat(path) is not None:
            return self._cover.open(path)
        if not self._is_seen(path):
            raise NotFoundError(f"cannot open {self.root}/{path}: it came later", file=f"{self.root}/{path}")
        return super().open(path)

    def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
        directory = path.rpartition("/")[0]
        if self._cover.stat(directory) is None:
            self._cover.make_directory(directory)
        if self._cover.stat(path) is None and self.stat(path) is not None:
            below, copy = super().open(path), self._cover.open_rw(path, create=True)
            for offset in range(0, below.size(), _COPIED_BYTES):
                copy.write(offset, below.read(offset, _COPIED_BYTES))
            below.close()
            return copy
        return self._cover.open_rw(path, create=create)

    def make_directory(self, path: str) -> None:
        self._cover.make_directory(path)

    def rename(self, old: str, new: str) -> None:
        self.open_rw(old).close()
        self._cover.rename(old, new)
        self._shown.pop(old, None)

    def remove(self, path: str) -> None:
        if self.stat(path) is None:
            raise NotFoundError(f"cannot remove {self.root}/{path}", file=f"{self.root}/{path}")
        if self._cover.stat(path) is not None:
            self._cover.remove(path)
        self._shown.pop(path, None)

    def sync_directory(self, path: str = "") -> None:
        """Do nothing: the cover need not survive a crash."""

    def free_bytes(self) -> int | None:
        return self._cover.free_bytes()

    def lock(self, path: str, byte: int, *, exclusive: bool) -> Lock:
        """Lock for reading below; no other process changes the copy."""
        return NoLock() if exclusive else super().lock(path, byte, exclusive=exclusive)

    def _is_seen(self, path: str) -> bool:
        return path in self._shown or not path.endswith(self._suffix)
