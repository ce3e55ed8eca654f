"""Copies of pages that are about to be written, so that a torn page write loses nothing.

For Derby a page with a wrong checksum is lost, since the log holds changes, not whole pages (R-DRB-33). A power failure
in the middle of a page write leaves such a page. The page store therefore writes every page twice: first into
``jetool.pages`` beside the log, synced, then into its container. ``mend`` runs before recovery and replaces each torn
page by its copy. Redo then brings it up to date as usual, since its log records were made durable first.

Entry: int length of the path, long offset, int number of bytes, int CRC-32 of all other parts, the path, the bytes.
Entries of one batch follow each other from the start of the file; the first incomplete entry ends the batch. The file
is restarted once the containers are synced. If a page has several copies, the last one counts.

Derby ignores the file.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.derby.pages import decode_page
from engine.errors import FormatError
from engine.storage.base import ReadFile, Storage, WriteFile

COPIES: Final = "jetool.pages"
_ENTRY: Final = struct.Struct(">iqiI")
_LONGEST: Final = 1 << 17
# The minimum record size of the container does not affect whether a page is torn.
_NO_MINIMUM: Final = 0


class PageCopy(NamedTuple):
    """The new content of a page: path below the database directory, offset in bytes, the bytes."""

    path: str
    offset: int
    data: bytes


class PageCopies:
    """The file of copies, while the store is open.

    Arguments:
        storage: the database directory.
    """

    __slots__ = ("_file", "_storage", "size_bytes")

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._file: WriteFile | None = None
        self.size_bytes = 0

    def keep(self, pages: list[PageCopy]) -> None:
        """Make copies of pages durable, before the pages themselves are written."""
        if self._file is None:
            self._file = self._storage.open_rw(COPIES, create=True)
            self._storage.sync_directory()
        # The pages of the old copies are durable; old entries after a shorter batch must not be read again.
        if not self.size_bytes:
            self._file.truncate(0)
        data = bytearray()
        for one in pages:
            path = one.path.encode("ascii")
            # The checksum is computed over the entry with 0 in the checksum field.
            checksum = zlib.crc32(_ENTRY.pack(len(path), one.offset, len(one.data), 0) + path + one.data)
            data += _ENTRY.pack(len(path), one.offset, len(one.data), checksum) + path + one.data
        self._file.write(self.size_bytes, bytes(data))
        self._file.sync()
        self.size_bytes += len(data)

    def forget(self) -> None:
        """Restart the file: every copied page is durable in its container."""
        self.size_bytes = 0

    def close(self) -> None:
        """Close the file; its content stays."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def remove(self) -> None:
        """Remove the file: every page is durable."""
        self.close()
        if self._storage.stat(COPIES) is not None:
            self._storage.remove(COPIES)
            self._storage.sync_directory()


def mend(storage: Storage) -> int:
    """Replace torn pages by their copies, durably; return the number of pages replaced."""
    if storage.stat(COPIES) is None:
        return 0
    file = storage.open(COPIES)
    try:
        # If a page has several copies, the last copy counts.
        copies = {(one.path, one.offset): one.data for one in _entries(file)}
    finally:
        file.close()
    mended = 0
    for path in sorted({path for path, _ in copies}):
        if storage.stat(path) is not None:
            pages = {offset: data for (other, offset), data in copies.items() if other == path}
            mended += _mend_file(storage, path, pages)
    return mended


def _mend_file(storage: Storage, path: str, pages: dict[int, bytes]) -> int:
    file = storage.open(path)
    try:
        # An intact page may be newer or older than its copy; redo handles both.
        torn = [offset for offset, data in sorted(pages.items()) if not _is_whole(file.read(offset, len(data)))]
    finally:
        file.close()
    if torn:
        writable = storage.open_rw(path)
        try:
            for offset in torn:
                writable.write(offset, pages[offset])
            writable.sync()
        finally:
            writable.close()
    return len(torn)


def _is_whole(data: bytes) -> bool:
    try:
        decode_page(data, _NO_MINIMUM)
    except FormatError:
        return False
    return True


def _entries(file: ReadFile) -> Iterator[PageCopy]:
    """The complete entries, in order."""
    at, size = 0, file.size()
    while at + _ENTRY.size <= size:
        path_length, offset, length, checksum = _ENTRY.unpack(file.read(at, _ENTRY.size))
        # The end of the batch, or a torn entry: its pages were not written yet.
        if not 0 < path_length <= _LONGEST or not 0 < length <= _LONGEST or offset < 0:
            return
        body = file.read(at + _ENTRY.size, path_length + length)
        # The checksum is computed with 0 in the checksum field.
        front = _ENTRY.pack(path_length, offset, length, 0)
        if len(body) != path_length + length or zlib.crc32(front + body) != checksum:
            return
        yield PageCopy(body[:path_length].decode("ascii", "replace"), offset, body[path_length:])
        at += _ENTRY.size + len(body)
