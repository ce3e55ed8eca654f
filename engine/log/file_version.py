"""The log version of a file whose header says nothing: that of a file beside it.

Versions ascend with file numbers and change only when JE is upgraded (je-log-format.md 3.6), so the nearest file before
is the best witness, and the nearest after when there is none.

Example: the header of 00000003.jdb is zeros, 00000002.jdb is of version 17: the entries of 3 are read as version 17.
"""

from __future__ import annotations

from typing import Final

from engine.errors import NotFoundError, StorageError
from engine.format.entry.file_header import FILE_HEADER_BYTES, VERSION_AT
from engine.format.entry_types import FILE_HEADER
from engine.format.header import CHECKSUM_BYTES, TYPE_AT, entry_checksum
from engine.format.versions import NEWEST_VERSION, is_supported
from engine.log.files import log_file_number
from engine.storage.base import Storage

# Files looked at on each side.
_MOST_ASKED: Final = 16


def version_beside(storage: Storage, path: str) -> int:
    """The log version of the nearest file in the same directory, the newest when none tells.

    Arguments:
        storage: the environment.
        path: the file, relative to it.
    """
    directory, _, name = path.rpartition("/")
    own = log_file_number(name)
    numbered = {log_file_number(other): other for other in storage.names(directory)}
    numbers = sorted(number for number in numbered if number is not None)
    before = [number for number in reversed(numbers) if own is not None and number < own]
    behind = [number for number in numbers if own is not None and number > own]
    for number in before[:_MOST_ASKED] + behind[:_MOST_ASKED]:
        version = _version_of(storage, f"{directory}/{numbered[number]}" if directory else numbered[number])
        if version is not None:
            return version
    return NEWEST_VERSION


def header_version(start: bytes) -> int | None:
    """The version that an intact file header names, None when it is not intact.

    Arguments:
        start: the first bytes of a file.
    """
    header = start[:FILE_HEADER_BYTES]
    if len(header) < FILE_HEADER_BYTES or header[TYPE_AT] != FILE_HEADER:
        return None
    # The version says which bits the checksum covers, so it is taken before the checksum is known to be right.
    version = int.from_bytes(header[VERSION_AT:], "little", signed=True)
    stored = int.from_bytes(header[:CHECKSUM_BYTES], "little")
    return version if entry_checksum(header, version) == stored else None


def _version_of(storage: Storage, path: str) -> int | None:
    try:
        handle = storage.open(path)
    except (NotFoundError, StorageError):
        return None
    try:
        version = header_version(handle.read(0, FILE_HEADER_BYTES))
    except StorageError:
        return None
    finally:
        handle.close()
    return version if version is not None and is_supported(version) else None
