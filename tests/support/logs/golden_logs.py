"""Golden logs and small hand-made ones for the tests of format and log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from zlib import adler32

from engine.format.entry.file_header import FileHeader, encode_file_header
from engine.format.entry_types import FILE_HEADER
from engine.format.header import EntryHeader, encode_entry, has_vlsn
from engine.log.check import FileCheck, check_file
from engine.log.entry import Damage, LogEntry
from engine.log.files import LogFile
from engine.log.reader import FileReader
from engine.log.window import WINDOW_BYTES
from engine.storage.memory import MemoryStorage

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
EXPECTED: dict[str, dict[str, Any]] = json.loads((GOLDEN / "expected.json").read_text())
VERSIONS = range(6, 27)


class GoldenFile(NamedTuple):
    """One log file of a golden environment."""

    environment: str
    name: str
    number: int
    is_last: bool

    @property
    def data(self) -> bytes:
        return _bytes_of(GOLDEN / self.environment / self.name)

    def __str__(self) -> str:
        return f"{self.environment}/{self.name}"


@cache
def _bytes_of(path: Path) -> bytes:
    return path.read_bytes()


def golden_files(environment: str | None = None) -> list[GoldenFile]:
    """The log files of one golden environment, or of all; without restore markers."""
    found = []
    for name in [environment] if environment else EXPECTED:
        paths = sorted(p for p in (GOLDEN / name).glob("*.jdb") if p.stem != "7fffffff")
        found += [GoldenFile(name, path.name, int(path.stem, 16), path == paths[-1]) for path in paths]
    return found


def open_bytes(
    data: bytes, *, number: int = 0, is_last: bool = True, version: int = 26, window: int = WINDOW_BYTES
) -> FileReader:
    """A reader over bytes in memory."""
    path = f"{number:08x}.jdb"
    storage = MemoryStorage({path: data})
    return FileReader(storage, LogFile(number, path, len(data)), is_last=is_last, version=version, window_bytes=window)


def read(data: bytes, **options: Any) -> list[LogEntry | Damage]:
    """Everything that a forward reader yields."""
    return list(open_bytes(data, **options).entries())


def check(data: bytes, **options: Any) -> FileCheck:
    """What the bulk check says."""
    return check_file(open_bytes(data, **options))


def damages(items: list[LogEntry | Damage]) -> list[Damage]:
    return [item for item in items if isinstance(item, Damage)]


def entries(items: list[LogEntry | Damage]) -> list[LogEntry]:
    return [item for item in items if isinstance(item, LogEntry)]


def offsets_and_sizes(data: bytes, version: int) -> Iterator[tuple[int, int]]:
    """Offset and total size of each entry of an intact file, by sizes alone: an oracle without checksums."""
    at = 0
    while at < len(data):
        size = 14 + int.from_bytes(data[at + 10 : at + 14], "little") + (8 if has_vlsn(data[at + 5], version) else 0)
        yield at, size
        at += size


def right_checksum(entry: bytes, version: int) -> int:
    """The checksum by the words of je-log-format.md 3.5."""
    flags = entry[5] & ~0x10 if version >= 7 else entry[5]
    return adler32(entry[4:5] + bytes((flags,)) + entry[6:])


class LogMaker:
    """Writes one log file entry by entry, with right links and checksums.

    Arguments:
        version: log version; in version 6 it goes into every flags byte.
        number: file number.
    """

    def __init__(self, version: int = 17, number: int = 0) -> None:
        self.version = version
        self.number = number
        self.data = b""
        self.offsets: list[int] = []
        self.add(FILE_HEADER, encode_file_header(FileHeader(1_700_000_000_000, number, 0, version), version))

    def add(
        self, type_number: int, body: bytes = b"", *, flags: int = 0, vlsn: int = -1, prev: int | None = None
    ) -> int:
        """Append an entry; returns its offset."""
        flags |= 6 if self.version == 6 else 0
        link = (self.offsets[-1] if self.offsets else 0) if prev is None else prev
        header = EntryHeader(0, type_number, flags, link, 0, vlsn)
        self.offsets.append(len(self.data))
        self.data += encode_entry(header, body, self.version)
        return self.offsets[-1]

    def trace(self, text: str = "hello") -> int:
        """Append a Trace."""
        return self.add(24, b"\x01" + len(text).to_bytes(1, "little") + text.encode())

    def commit(self, vlsn: int = -1) -> int:
        """Append a Commit, replicated when a VLSN is given."""
        flags = 0 if vlsn < 0 else 0x20 if self.version < 8 else 0x28
        return self.add(17, b"\xff\x01\x01\x00\x00\x00"[: 5 if self.version >= 13 else 4], flags=flags, vlsn=vlsn)

    def size_of(self, index: int) -> int:
        """Total size of the n-th entry."""
        end = self.offsets[index + 1] if index + 1 < len(self.offsets) else len(self.data)
        return end - self.offsets[index]
