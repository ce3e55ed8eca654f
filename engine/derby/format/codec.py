"""Scalars of Derby's files: bounded reading from a buffer, writing to a byte array.

==========  ======================================================================
name        bytes
==========  ======================================================================
int, long   4 and 8, fixed width; short 2, byte 1, bool 1 (0 or 1)
cint        1, 2 or 4: ``00xxxxxx`` to 63, ``01xxxxxx`` to 16383, ``1xxxxxxx`` to 2^31-1
clong       2, 4 or 8: ``00xxxxxx`` to 16383, ``01xxxxxx`` to 2^30-1, ``1xxxxxxx`` to 2^63-1
bytes       int length, then the bytes
string      unsigned short byte length, then modified UTF-8
==========  ======================================================================

Compressed numbers are written in the shortest form, and longer forms are refused, so decoding and encoding gives the
same bytes. Every read is checked against the remaining bytes, so damaged input raises ``FormatError`` and never causes
an allocation larger than the buffer.
"""

from __future__ import annotations

import struct
from typing import Final

from engine.errors import FormatError, caused_by, plural

INT: Final = struct.Struct(">i")
LONG: Final = struct.Struct(">q")
_SHORT: Final = struct.Struct(">H")
_UINT: Final = struct.Struct(">I")
_ULONG: Final = struct.Struct(">Q")
_FOUR_SHORTS: Final = struct.Struct(">HHHH")

MAX_CINT: Final = 2**31 - 1
MAX_CLONG: Final = 2**63 - 1


class FieldCursor:
    """A reading position in a buffer, with an end that no read passes.

    Arguments:
        data: the buffer.
        position: offset of the first byte to read.
        end: offset after the last byte that may be read; the length of ``data`` when left out.
    """

    __slots__ = ("data", "end", "position")

    def __init__(self, data: bytes, position: int = 0, end: int | None = None) -> None:
        self.data = data
        self.position = position
        self.end = len(data) if end is None else min(end, len(data))

    def remaining(self) -> int:
        """Bytes that can still be read."""
        return self.end - self.position

    def take(self, length: int) -> int:
        """Skip ``length`` bytes; return the offset of the first. FormatError if fewer are left."""
        start = self.position
        if length < 0 or start + length > self.end:
            raise FormatError(
                "a field runs past the end",
                expected=plural(length, "byte"),
                found=plural(self.end - start, "byte"),
            )
        self.position = start + length
        return start

    def raw(self, length: int) -> bytes:
        """The next ``length`` bytes."""
        start = self.take(length)
        return self.data[start : start + length]

    def byte(self) -> int:
        """An unsigned byte."""
        return self.data[self.take(1)]

    def flag(self) -> bool:
        """One byte that must be 0 or 1."""
        value = self.data[self.take(1)]
        if value > 1:
            raise FormatError("a flag is neither 0 nor 1", found=str(value))
        return value == 1

    def short(self) -> int:
        """An unsigned short."""
        return int(_SHORT.unpack_from(self.data, self.take(2))[0])

    def fixed_int(self) -> int:
        """A signed int."""
        return int(INT.unpack_from(self.data, self.take(4))[0])

    def fixed_long(self) -> int:
        """A signed long."""
        return int(LONG.unpack_from(self.data, self.take(8))[0])

    def cint(self) -> int:
        """A compressed int in its shortest form."""
        first = self.data[self.take(1)]
        if first < 0x40:
            return first
        if first < 0x80:
            value = (first & 0x3F) << 8 | self.data[self.take(1)]
            shortest = value >= 0x40
        else:
            start = self.take(3)
            value = (first & 0x7F) << 24 | int.from_bytes(self.data[start : start + 3], "big")
            shortest = value >= 0x4000
        # A longer form would not survive decoding and encoding again.
        if not shortest:
            raise FormatError("a compressed int is not in its shortest form", found=str(value))
        return value

    def clong(self) -> int:
        """A compressed long in its shortest form."""
        start = self.take(2)
        first = self.data[start]
        if first < 0x40:
            return first << 8 | self.data[start + 1]
        if first < 0x80:
            self.take(2)
            value = int(_UINT.unpack_from(self.data, start)[0]) & 0x3FFFFFFF
            shortest = value >= 0x4000
        else:
            self.take(6)
            value = int(_ULONG.unpack_from(self.data, start)[0]) & MAX_CLONG
            shortest = value >= 0x40000000
        if not shortest:
            raise FormatError("a compressed long is not in its shortest form", found=str(value))
        return value

    def page_key(self) -> tuple[int, int, int, int]:
        """Four compressed longs: segment, container, page, version; fast if all are small."""
        start = self.position
        if start + 8 <= self.end:
            found: tuple[int, int, int, int] = _FOUR_SHORTS.unpack_from(self.data, start)
            # The top two bits of each short give its length: 00 is a compressed long of two bytes.
            if max(found) < 0x4000:
                self.position = start + 8
                return found
        return self.clong(), self.clong(), self.clong(), self.clong()

    def count(self) -> int:
        """A cint that counts items of at least one byte each, checked against the remaining bytes."""
        value = self.cint()
        if value > self.remaining():
            raise FormatError("a count is larger than the bytes left", found=f"{value} of {self.remaining()}")
        return value

    def byte_array(self) -> bytes:
        """An int length and that many bytes."""
        return self.raw(self.fixed_int())

    def string(self) -> str:
        """A string in modified UTF-8 (read as UTF-8; file names are ASCII in practice)."""
        raw = self.raw(self.short())
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise caused_by(FormatError("a string is not UTF-8", found=raw.hex()), error) from error


def put_short(out: bytearray, value: int) -> None:
    """Append an unsigned short."""
    out += _SHORT.pack(value)


def put_int(out: bytearray, value: int) -> None:
    """Append a signed int."""
    out += INT.pack(value)


def put_long(out: bytearray, value: int) -> None:
    """Append a signed long."""
    out += LONG.pack(value)


def put_cint(out: bytearray, value: int) -> None:
    """Append a compressed int; FormatError when it is negative or above 2^31-1."""
    if 0 <= value < 0x40:
        out.append(value)
    elif 0 < value < 0x4000:
        out += _SHORT.pack(value | 0x4000)
    elif 0 < value <= MAX_CINT:
        out += _UINT.pack(value | 0x80000000)
    else:
        raise FormatError("a number does not fit into a compressed int", found=str(value))


def put_clong(out: bytearray, value: int) -> None:
    """Append a compressed long; FormatError when it is negative or above 2^63-1."""
    if 0 <= value < 0x4000:
        out += _SHORT.pack(value)
    elif 0 < value < 0x40000000:
        out += _UINT.pack(value | 0x40000000)
    elif 0 < value <= MAX_CLONG:
        out += _ULONG.pack(value | 0x8000000000000000)
    else:
        raise FormatError("a number does not fit into a compressed long", found=str(value))


def put_byte_array(out: bytearray, value: bytes) -> None:
    """Append an int length and the bytes."""
    out += INT.pack(len(value))
    out += value


def put_string(out: bytearray, value: str) -> None:
    """Append a string."""
    raw = value.encode("utf-8")
    if len(raw) > 0xFFFF:
        raise FormatError("a string is too long", expected="65535 bytes at most", found=plural(len(raw), "byte"))
    out += _SHORT.pack(len(raw))
    out += raw
