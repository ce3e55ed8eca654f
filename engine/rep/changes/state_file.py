"""Saves a position in a file, which is synced and then replaced as a whole."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from engine.errors import FormatError, RefusedError
from engine.rep.changes.position import Position, position_of
from engine.storage.base import Storage, write_synced
from engine.storage.disk import DiskStorage

PART: Final = ".part"
# Enough for more than a million names of databases; a longer file is not a state file.
_MOST_BYTES: Final = 256 << 20


class StateFile:
    """The file.

    Arguments:
        storage: the directory of the file.
        name: the name of the file in the directory.
    """

    def __init__(self, storage: Storage, name: str) -> None:
        self._storage = storage
        self._name = name

    @staticmethod
    def at(path: str) -> StateFile:
        """The file of a path."""
        place = os.path.abspath(path)
        return StateFile(DiskStorage(os.path.dirname(place)), os.path.basename(place))

    @property
    def path(self) -> str:
        """The path of the file."""
        return f"{self._storage.root}/{self._name}"

    def read(self) -> tuple[Position, Mapping[str, Any]] | None:
        """The position and the other data saved with it; None if there is no file.

        Raises:
            RefusedError: the file is something else.
            StorageError: the file cannot be read.
        """
        found = self._storage.stat(self._name)
        if found is None:
            return None
        try:
            if found.is_directory or found.size_bytes > _MOST_BYTES:
                raise FormatError(
                    "a state file", expected=f"a file of up to {_MOST_BYTES} bytes", found="another thing"
                )
            file = self._storage.open(self._name)
            try:
                value = json.loads(file.read(0, found.size_bytes))
            finally:
                file.close()
            return position_of(value), value.get("more", {})
        except (ValueError, RecursionError, FormatError) as error:
            raise RefusedError(
                "the file does not hold the state of a stream",
                file=self.path,
                found=str(error)[:200],
                consequence="nothing was read from the group",
                hint="name the file that jetool stream --state has written",
            ) from error

    def write(self, position: Position, more: Mapping[str, Any] | None = None) -> None:
        """Replace the file.

        Raises:
            StorageError: the file cannot be written; the old one is kept.
        """
        value = position.as_json() | ({"more": dict(more)} if more else {})
        data = json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"
        write_synced(self._storage, self._name + PART, data)
        self._storage.rename(self._name + PART, self._name)
        self._storage.sync_directory()
