"""Reading JE's dump format, and plain pairs of lines (DbLoad -T).

Header lines are ``keyword=value``, keywords in any case: ``VERSION`` (3), ``format`` (``bytevalue``, ``print``),
``type`` (``btree``), ``dupsort`` (0, 1, false, true), ``database``; ``HEADER=END`` closes. Then key and data on lines
of their own, each with a leading blank, until ``DATA=END``; its absence means that the dump was cut.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from engine.errors import DamageError, UsageError

_ESCAPE: Final = re.compile(rb"\\(\\|[0-9a-fA-F]{2})")
_HEADER_LINES: Final = 100
_HEADER_BYTES: Final = 1 << 16


class DumpHeader(NamedTuple):
    """What a dump says of itself.

    Attributes:
        printable: the format is ``print``.
        duplicates: the database has sorted duplicates; None when the header does not say.
        database: its name, None when the header does not say.
    """

    printable: bool
    duplicates: bool | None
    database: str | None


class DumpReader:
    """Reads one dump.

    Arguments:
        file: the lines.
        name: what messages call it.
        plain: pairs of lines without a header, as text.

    Attributes:
        header: what the dump says of itself.
        line: number of the last line read.
    """

    def __init__(self, file: BinaryIO, name: str, *, plain: bool) -> None:
        self._file = file
        self._name = name
        self._plain = plain
        self.line = 0
        self.header = DumpHeader(True, None, None) if plain else self._read_header()

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and data.

        Raises:
            DamageError: a line that is not of the format, or the end is missing.
        """
        while True:
            key = self._next()
            if key is None:
                if self._plain:
                    return
                # A dump that was cut may end between two records, and nothing else would tell.
                raise self._damage("the dump has no DATA=END", "it was cut; records after this place are missing")
            # In plain pairs it is a key like any other.
            if not self._plain and key == b"DATA=END":
                return
            found = self._bytes(key)
            data = self._next()
            if data is None:
                raise self._damage("a key without data at the end of the dump", "it was cut")
            yield found, self._bytes(data)

    def _next(self) -> bytes | None:
        line = self._file.readline()
        if not line:
            return None
        self.line += 1
        # Dumps that went through Windows have carriage returns.
        return line.rstrip(b"\r\n")

    def _bytes(self, line: bytes) -> bytes:
        # Blanks around are no data: inside, the format writes them as backslash 20.
        text = line.strip(b" ") if not self._plain else line
        if self.header.printable:
            if not self._plain and b"\\" in _ESCAPE.sub(b"", text):
                raise self._damage("a backslash without two hex digits", "the record cannot be read")
            return _ESCAPE.sub(lambda found: b"\\" if found[1] == b"\\" else binascii.unhexlify(found[1]), text)
        try:
            return binascii.unhexlify(text)
        except binascii.Error:
            raise self._damage("a line that is not an even number of hex digits", "the record cannot be read") from None

    def _read_header(self) -> DumpHeader:
        found: dict[str, str] = {}
        for _ in range(_HEADER_LINES):
            # Bounded: a binary file may have no newline at all.
            line = self._file.readline(_HEADER_BYTES)
            self.line += 1
            text = line.decode("utf-8", "surrogateescape").strip()
            keyword, equals, value = text.partition("=")
            if not equals:
                raise self._damage("no header line of a JE dump", "nothing was loaded", text or "an empty line")
            if (keyword.upper(), value.upper()) == ("HEADER", "END"):
                return self._header(found)
            found[keyword.strip().lower()] = value.strip()
        raise self._damage("the header has no end", "nothing was loaded")

    def _header(self, found: dict[str, str]) -> DumpHeader:
        allowed = {"version": ("3",), "type": ("btree",), "format": ("bytevalue", "print"),
                   "dupsort": ("0", "1", "false", "true")}  # fmt: skip
        for keyword, value in found.items():
            if keyword not in allowed and keyword != "database":
                raise self._damage(f"unknown header keyword {keyword}", "nothing was loaded")
            if keyword in allowed and value.lower() not in allowed[keyword]:
                raise self._damage(f"unknown value of {keyword} in the header", "nothing was loaded", value)
        dupsort = found.get("dupsort")
        duplicates = None if dupsort is None else dupsort.lower() in ("1", "true")
        return DumpHeader(found.get("format", "bytevalue").lower() == "print", duplicates, found.get("database"))

    def _damage(self, what: str, consequence: str, found: str | None = None) -> DamageError:
        return DamageError(f"{what}, line {self.line}", file=self._name, found=found, consequence=consequence)


def require_same_kind(header: DumpHeader, duplicates: bool, name: str) -> None:
    """Refuse a dump of a database with duplicates for one without, and the other way round.

    Raises:
        UsageError: they differ.
    """
    if header.duplicates is not None and header.duplicates != duplicates:
        raise UsageError(
            f"the dump and database {name!r} differ in dupsort",
            expected=f"dupsort={int(duplicates)}",
            found=f"dupsort={int(header.duplicates)}",
            hint="load into another database, with --create",
        )
