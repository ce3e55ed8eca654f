"""Data that does not fit into memory, in a nameless file of the system's temporary directory.

The file is created with the first data, belongs to no environment, and disappears with the process, however that ends.
Data is stored in blocks with sizes of powers of two, each preceded by the length of the data; a freed block is reused
for data of its size. So the file takes at most twice the maximum amount of data stored at one time.

Example: 3,000 bytes go into a block of 4,096 at offset 0, and 600 into one of 1,024 at 4,096. Then the first block is
freed and 2,500 bytes are stored: they go to offset 0.
"""

from __future__ import annotations

import os
from typing import IO, Final

from engine.errors import StorageError

_LENGTH_BYTES: Final = 8
_LEAST_BLOCK: Final = 512


class ScratchFile:
    """Stores data until it is freed.

    Attributes:
        size: size of the file.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._free: dict[int, list[int]] = {}
        self.size = 0

    def make(self) -> None:
        """Create the file now: processes forked later share it, and only one of all these processes may put data into
        it.

        Raises:
            StorageError: see ``put``.
        """
        try:
            self._handle()
        except OSError as error:
            raise _translated(error) from error

    def put(self, data: bytes) -> int:
        """Store data; returns its offset, for ``get`` and ``free``.

        Raises:
            StorageError: there is no room, or no temporary directory.
        """
        block = _block_of(len(data))
        free = self._free.get(block)
        offset = free.pop() if free else self.size
        # The length is stored in front, since the block is larger.
        try:
            write_kept(self._handle(), len(data).to_bytes(_LENGTH_BYTES, "little") + data, offset)
        except OSError as error:
            raise _translated(error) from error
        self.size = max(self.size, offset + block)
        return offset

    def get(self, offset: int) -> bytes:
        """The data at an offset that ``put`` has returned.

        Raises:
            StorageError: it cannot be read.
        """
        assert self._file is not None
        handle = self._file.fileno()
        length = int.from_bytes(read_kept(handle, _LENGTH_BYTES, offset), "little")
        return read_kept(handle, length, offset + _LENGTH_BYTES)

    def free(self, offset: int, length: int) -> None:
        """Free the block of data of that length."""
        self._free.setdefault(_block_of(length), []).append(offset)

    def close(self) -> None:
        """Drop all data."""
        if self._file is not None:
            self._file.close()
        self._file, self._free, self.size = None, {}, 0

    def _handle(self) -> int:
        if self._file is None:
            self._file = nameless_file()
        return self._file.fileno()


def nameless_file() -> IO[bytes]:
    """A file in the system's temporary directory that disappears with the process, or when it is closed.

    Raises:
        OSError: there is no room, or no such directory.
    """
    # Imported here since most processes never need it.
    import tempfile

    return tempfile.TemporaryFile(prefix="jetool-")


def write_kept(handle: int, data: bytes, offset: int) -> None:
    """Write all of some data into such a file.

    Raises:
        OSError: there is no room, or another error of the system.
    """
    rest = memoryview(data)
    while rest:
        written = os.pwrite(handle, rest, offset)
        rest, offset = rest[written:], offset + written


def read_kept(handle: int, length: int, offset: int) -> bytes:
    """Bytes that were written into such a file.

    Raises:
        StorageError: they cannot be read.
    """
    try:
        data = os.pread(handle, length, offset)
        while data and len(data) < length and (more := os.pread(handle, length - len(data), offset + len(data))):
            data += more
    except OSError as error:
        raise _translated(error) from error
    if len(data) != length:
        raise StorageError("the scratch file has lost bytes", hint="run the command again")
    return data


def _block_of(length: int) -> int:
    """The size of the block for a number of bytes."""
    return int(max(_LEAST_BLOCK, 1 << (length + _LENGTH_BYTES - 1).bit_length()))


def _translated(error: OSError) -> StorageError:
    return StorageError(
        "the scratch file cannot be used",
        found=error.strerror or str(error),
        consequence="what memory cannot hold has no place; the environment was not changed",
        hint="set TMPDIR to a directory with room, or je.maxMemory in je.properties to a larger cache",
    )
