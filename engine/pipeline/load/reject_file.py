"""The file of records that a load rejected: JSON lines, one for each record.

Users without access to the environment must not read it. A line::

    {"file":"orders.csv","line":17,"column":3,"reason":"2 columns, expected 3","record":"4711,three crates"}
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from engine.errors import StorageError
from engine.storage.sidecar import Access, give, make_directories

_NAME: Final = "rejects.jsonl"


class RejectedRecord(NamedTuple):
    """A record that was not taken.

    Attributes:
        file: of the source.
        line: counted from 1; None for formats without lines.
        column: counted from 1; None when no column is to blame.
        reason: why.
        record: the record itself, as text.
    """

    file: str
    line: int | None
    column: int | None
    reason: str
    record: str


class RejectFile:
    """A context that writes the file; the directory and the file are made with the first record.

    Arguments:
        directory: the directory of the file.
        access: who may read it.

    Attributes:
        path: of the file; None while nothing was rejected.

    Raises:
        StorageError: the file cannot be written.
    """

    def __init__(self, directory: Path, access: Access) -> None:
        self._directory, self._access = directory, access
        self._out: TextIO | None = None
        self.path: Path | None = None

    def __enter__(self) -> RejectFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._out is not None:
            try:
                # What is still in the buffer is written here.
                self._out.close()
            except OSError as error:
                raise self._error(error) from error

    def add(self, record: RejectedRecord) -> None:
        """Write one record."""
        target = self._directory / _NAME
        try:
            if self._out is None:
                make_directories(self._directory, self._access)
                # Private from the first byte, and not written through a link planted by another user.
                handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
                # Names of files that are not UTF-8 become escapes, which JSON has too.
                self._out, self.path = os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace"), target
                give(target, self._access.file, self._access)
            self._out.write(json.dumps(record._asdict(), ensure_ascii=False, separators=(",", ":")) + "\n")
        except OSError as error:
            raise self._error(error) from error

    def _error(self, error: OSError) -> StorageError:
        return StorageError("cannot write the rejects", file=str(self._directory / _NAME), found=error.strerror)
