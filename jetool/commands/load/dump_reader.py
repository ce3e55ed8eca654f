"""Reading JE's dump format, and plain pairs of lines (DbLoad -T).

Header lines are ``keyword=value``, keywords in any case: ``VERSION`` (3), ``format`` (``bytevalue``, ``print``),
``type`` (``btree``), ``dupsort`` (0, 1, false, true), ``database``; ``HEADER=END`` closes. Then each key and each data
item has its own line with a leading blank, until ``DATA=END``. A dump without this line was cut off.
"""

from __future__ import annotations

import re
from binascii import unhexlify
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from types import MappingProxyType
from typing import BinaryIO, Final, NamedTuple

from engine.errors import DamageError, UnsupportedError, UsageError

_ESCAPE: Final = re.compile(rb"\\(\\|[0-9a-fA-F]{2})")
_HEADER_LINES: Final = 100
_HEADER_BYTES: Final = 1 << 16
_END: Final = b"DATA=END"
# Size of a block of lines; the number of lines is even, so that no record is split.
_MOST_LINES: Final = 4096
_FIRST_LINES: Final = 64
_BLOCK_BYTES: Final = 4 << 20
# A dump is large from this number of records, or this number of bytes.
LARGE_RECORDS: Final = 50_000
_LARGE_BYTES: Final = 16 << 20

# The header keywords with a fixed set of values; the value of ``database`` is a name.
_VALUES: Final[dict[str, tuple[str, ...]]] = {
    "version": ("3",),
    "type": ("btree",),
    "format": ("bytevalue", "print"),
    "dupsort": ("0", "1", "false", "true"),
}
KEYWORDS: Final = (*_VALUES, "database")

# Keys, and their data.
Block = tuple[list[bytes], list[bytes]]


class DumpHeader(NamedTuple):
    """The header of a dump.

    Attributes:
        printable: the format is ``print``.
        duplicates: whether the database has sorted duplicates; None if the header does not state it.
        database: the name of the database; None if the header does not state it.
    """

    printable: bool
    duplicates: bool | None
    database: str | None


class DumpReader:
    """Reads one dump.

    Arguments:
        file: the lines.
        name: the name of the dump in messages.
        plain: whether the input is pairs of text lines without a header.
        settings: header keywords by name, as if they stood before the header: a line of the header replaces them.
        ignore_unknown: whether unknown keywords of the header are passed over.
        in_blocks: decode blocks of lines together where possible, which is faster and gives the same.

    Attributes:
        header: the header of the dump.
        line: number of the last line read.
    """

    def __init__(
        self,
        file: BinaryIO,
        name: str,
        *,
        plain: bool,
        settings: Mapping[str, str] = MappingProxyType({}),
        ignore_unknown: bool = False,
        in_blocks: bool = True,
    ) -> None:
        self._file = file
        self._name = name
        self._plain = plain
        self._settings = settings
        self._ignore_unknown = ignore_unknown
        self._in_blocks = in_blocks
        # Lines that were read ahead and not yet decoded.
        self._ahead: deque[list[bytes]] = deque()
        self._block_lines = _FIRST_LINES
        self._ended = False
        self.line = 0
        self.header = self._header(dict(settings))._replace(printable=True) if plain else self._read_header()

    def is_large(self) -> bool:
        """Whether the dump is large; reads ahead as far as necessary to decide."""
        lines = size = 0
        while not self._ended and lines < 2 * LARGE_RECORDS and size < _LARGE_BYTES:
            self._ahead.append(found := self._read_lines())
            lines += len(found)
            size += sum(map(len, found))
        return lines >= 2 * LARGE_RECORDS or size >= _LARGE_BYTES

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and data.

        Raises:
            DamageError: a line is malformed, or the end is missing.
        """
        return chain.from_iterable(zip(*block, strict=True) for block in self.blocks())

    def blocks(self) -> Iterator[Block]:
        """The records in blocks; all records before a bad line come before the error."""
        while lines := self._ahead.popleft() if self._ahead else self._read_lines():
            block = self._decoded(lines) if self._in_blocks else None
            if block is not None:
                self.line += len(lines)
                yield block
                continue
            block = [], []
            try:
                ended = self._one_by_one(lines, block)
            except DamageError:
                yield block
                raise
            yield block
            if ended:
                return
        # A truncated dump may end between two records; only the missing end line shows it.
        if not self._plain:
            raise self._damage("the dump has no DATA=END", "it was cut; records after this place are missing")

    def _read_lines(self) -> list[bytes]:
        if self._ended:
            return []
        most = self._block_lines
        if self._plain:
            found = list(islice(self._file, most))
            self._ended = len(found) < most
        else:
            # Do not read beyond the end of the dump, because the writer of a pipe may be waiting for the result.
            found = list(islice(iter(self._file.readline, _END + b"\n"), most))
            if len(found) < most:
                found.append(_END)
                # An end mark in the place of a data item is data.
                self._ended = bool(len(found) % 2)
            elif not found[-1]:
                # After the end of the file every line is empty.
                self._ended = True
                del found[found.index(b"") :]
        self._block_lines = max(2, min(_MOST_LINES, _BLOCK_BYTES * len(found) // (sum(map(len, found)) + 1)) & ~1)
        return found

    def _decoded(self, lines: list[bytes]) -> Block | None:
        """The records of a block; None if its lines must be checked individually."""
        # Dumps that went through Windows have carriage returns.
        stripped = [line.rstrip(b"\r\n") for line in lines]
        if len(lines) % 2:
            return None
        if not self._plain:
            # Surrounding blanks are not data: the format writes blanks in data as backslash 20.
            if _END in stripped:
                return None
            stripped = [line.strip(b" ") for line in stripped]
        try:
            if not self.header.printable:
                stripped = list(map(unhexlify, stripped))
            else:
                stripped = [self._unescaped(line) if b"\\" in line else line for line in stripped]
        except ValueError:
            return None
        return stripped[::2], stripped[1::2]

    def _one_by_one(self, lines: list[bytes], into: Block) -> bool:
        """Take records up to a bad line or the end of the dump; returns whether the end was reached."""
        keys, data = into
        following = iter(lines)
        for key in following:
            self.line += 1
            stripped = key.rstrip(b"\r\n")
            # In plain pairs the end mark is an ordinary key.
            if not self._plain and stripped == _END:
                return True
            found = self._bytes(stripped)
            value = next(following, None)
            if value is None:
                raise self._damage("a key without data at the end of the dump", "it was cut")
            self.line += 1
            data.append(self._bytes(value.rstrip(b"\r\n")))
            keys.append(found)
        return False

    def _bytes(self, line: bytes) -> bytes:
        text = line.strip(b" ") if not self._plain else line
        try:
            return self._unescaped(text) if self.header.printable else unhexlify(text)
        except ValueError:
            found = "a backslash without two" if self.header.printable else "a line that is not an even number of"
            raise self._damage(f"{found} hex digits", "the record cannot be read") from None

    def _unescaped(self, text: bytes) -> bytes:
        if not self._plain and b"\\" in _ESCAPE.sub(b"", text):
            raise ValueError("a backslash without two hex digits")
        return _ESCAPE.sub(lambda found: b"\\" if found[1] == b"\\" else unhexlify(found[1]), text)

    def _read_header(self) -> DumpHeader:
        found: dict[str, str] = {}
        for _ in range(_HEADER_LINES):
            # Limit the length: a binary file may have no newline at all.
            line = self._file.readline(_HEADER_BYTES)
            self.line += 1
            text = line.decode("utf-8", "surrogateescape").strip()
            keyword, equals, value = text.partition("=")
            if not equals and self.line > 1:
                raise self._damage("no header line of a JE dump", "nothing was loaded", text or "an empty line")
            if not equals:
                raise UnsupportedError(
                    "line 1 is no header of a JE dump" if line else "the file is empty",
                    file=self._name,
                    found=(text or "an empty line") if line else None,
                    consequence="nothing was loaded",
                    hint="jetool dump ENV --db NAME makes a dump; --input-format csv and others load other formats",
                )
            if (keyword.upper(), value.upper()) == ("HEADER", "END"):
                return self._header({**self._settings, **found})
            found[keyword.strip().lower()] = value.strip()
        raise self._damage("the header has no end", "nothing was loaded")

    def _header(self, found: dict[str, str]) -> DumpHeader:
        for keyword, value in found.items():
            if keyword not in KEYWORDS and not self._ignore_unknown:
                raise self._damage(f"unknown header keyword {keyword}", "nothing was loaded")
            if not is_allowed(keyword, value):
                raise self._damage(f"unknown value of {keyword} in the header", "nothing was loaded", value)
        dupsort = found.get("dupsort")
        duplicates = None if dupsort is None else dupsort.lower() in ("1", "true")
        return DumpHeader(found.get("format", "bytevalue").lower() == "print", duplicates, found.get("database"))

    def _damage(self, what: str, consequence: str, found: str | None = None) -> DamageError:
        return DamageError(
            f"{what}, line {self.line}",
            file=self._name,
            found=found,
            consequence=consequence,
            hint="make the dump again: jetool dump ENV --db NAME",
        )


def is_allowed(keyword: str, value: str) -> bool:
    """Whether a header keyword may have this value; an unknown keyword may have any."""
    return keyword not in _VALUES or value.lower() in _VALUES[keyword]


def require_same_kind(header: DumpHeader, duplicates: bool, name: str) -> None:
    """Refuse a dump with duplicates for a database without them, and vice versa.

    Raises:
        UsageError: the dump and the database differ in this.
    """
    if header.duplicates is not None and header.duplicates != duplicates:
        raise UsageError(
            f"the dump and database {name!r} differ in dupsort",
            expected=f"dupsort={int(duplicates)}",
            found=f"dupsort={int(header.duplicates)}",
            hint="load into another database, with --create",
        )
