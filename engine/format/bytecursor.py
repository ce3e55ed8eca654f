"""Reading and writing the numbers of a body: packed integers (JE's variable-length numbers) and bounded access to
scalars.

``ByteReader`` never reads past the body: every overrun is a ``FormatError``, and a count or a length is checked against
the remaining bytes before anything is built from it. ``ByteWriter`` is its mirror, and writes what ``ByteReader``
reads. The scalars are those of je-log-format.md section 1, packed integers those of 4.1 to 4.3:

* *Packed* (``pint``, ``plong``; same bytes for equal values): -119..119 in one byte; otherwise a length byte 119 + n
  (or -(119 + n) when negative) and then |v| - 119 in n bytes, little-endian, n as small as possible.
* *Reverse packed*: the same bytes in reverse order, so that the number can be read from its end; it ends two-part keys.
* *Sorted packed*: order-preserving under unsigned byte comparison; used in keys of internal databases.

======  ============  ==============  ============
value   packed        reverse packed  sorted
======  ============  ==============  ============
0       ``00``        ``00``          ``7f``
120     ``78 01``     ``01 78``       ``f7``
374     ``78 ff``     ``ff 78``       ``f8 fd``
-120    ``88 01``     ``01 88``       ``07 ff``
======  ============  ==============  ============
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from engine.errors import FormatError, plural

if TYPE_CHECKING:
    from mypy_extensions import i64

# In compiled code a loop over native numbers is several times faster than ``int.from_bytes``; interpreted it is slower.
_COMPILED: Final = not __file__.endswith(".py")
_ONE_BYTE: Final = 119
# Stands for the length (-1) at the end of a two-part key that has no second part; such a key sorts below all keys with
# a second part.
PREFIX_ONLY: Final = b"\xff"
# Indexed by value; negative values use negative list indexes.
_SMALL: Final = [bytes((value & 0xFF,)) for value in (*range(_ONE_BYTE + 1), *range(-_ONE_BYTE, 0))]
LONG_BYTES: Final = 8
# The two bytes of the values from 120 to 375.
_TWO_BYTES: Final = [bytes((_ONE_BYTE + 1, magnitude)) for magnitude in range(256)]
# The length byte, indexed by number of bytes; negative values use negative list indexes.
_LEADS: Final = [bytes((value,)) for value in (_ONE_BYTE, *range(120, 128), *range(129, 137))]
# Sorted form: one-byte values are -119..120, stored with this bias.
_SORTED_BIAS: Final = 127
_SORTED_MAX: Final = 120


def pack(value: int) -> bytes:
    """The packed form of a 64-bit signed value, 1 to 9 bytes."""
    if -_ONE_BYTE <= value <= _ONE_BYTE:
        return _SMALL[value]
    if value > 0:
        magnitude = value - _ONE_BYTE
        if magnitude < 256:
            # Fast path: most entry sizes are in this range.
            return _TWO_BYTES[magnitude]
        length = (magnitude.bit_length() + 7) >> 3
        return _LEADS[length] + magnitude.to_bytes(length, "little")
    magnitude = -value - _ONE_BYTE
    length = (magnitude.bit_length() + 7) >> 3
    return _LEADS[-length] + magnitude.to_bytes(length, "little")


def unpack(data: bytes, pos: int) -> tuple[int, int]:
    """The packed value at ``pos`` and the position after it.

    Raises:
        FormatError: the value runs past the end of ``data``, or its first byte is invalid.
        IndexError: ``pos`` itself is past the end.
    """
    lead = data[pos]
    pos += 1
    if lead <= _ONE_BYTE:
        return lead, pos
    if lead >= 256 - _ONE_BYTE:
        return lead - 256, pos
    negative = lead > 127
    length = 256 - _ONE_BYTE - lead if negative else lead - _ONE_BYTE
    end = pos + length
    if length > LONG_BYTES or end > len(data):
        raise FormatError(
            "packed integer runs past the end", expected=plural(length, "byte"), found=str(len(data) - pos)
        )
    if length < LONG_BYTES:
        magnitude = (_little(data, pos, end) if _COMPILED else int.from_bytes(data[pos:end], "little")) + _ONE_BYTE
        return -magnitude if negative else magnitude, end
    magnitude = int.from_bytes(data[pos:end], "little") + _ONE_BYTE
    value = -magnitude if negative else magnitude
    # The most extreme values wrap around in 64 bits, as the writer's arithmetic does.
    return (value + (1 << 63)) % (1 << 64) - (1 << 63), end


def _little(data: bytes, start: i64, end: i64) -> i64:
    """Up to seven bytes as an unsigned number."""
    value: i64 = 0
    pos: i64 = end
    while pos > start:
        pos -= 1
        byte: i64 = data[pos]
        value = value << 8 | byte
    return value


def reverse_pack(value: int) -> bytes:
    """The packed form with its bytes in reverse order."""
    return pack(value)[::-1]


def reverse_unpack(data: bytes) -> tuple[int, int]:
    """The reverse-packed value at the end of ``data`` and the position where it begins.

    Raises:
        FormatError: there is no such value.
    """
    # The last nine bytes at most, reversed, begin with an ordinary packed value.
    tail = data[: -LONG_BYTES - 2 : -1]
    if not tail:
        raise FormatError("reverse-packed integer in an empty key")
    value, length = unpack(tail, 0)
    return value, len(data) - length


def split_two_part_key(stored: bytes) -> tuple[bytes, bytes]:
    """Split a stored key ``first || second || reverse-packed(len(first))`` into its two parts.

    Returns:
        Key and data of a duplicate record or of an embedded record (R-TREE-19, je-log-format.md 8.5 and 12.1).

    Raises:
        FormatError: the length at the end is not valid for the key.
    """
    length, end = reverse_unpack(stored)
    if length < 0 or length > end:
        raise FormatError("two-part key", expected=f"a first part of 0..{plural(end, 'byte')}", found=str(length))
    return stored[:length], stored[length:end]


def join_two_part_key(first: bytes, second: bytes) -> bytes:
    """The stored form of a two-part key."""
    return first + second + reverse_pack(len(first))


def sorted_pack(value: int) -> bytes:
    """The sorted packed form, 1 to 9 bytes."""
    if -_ONE_BYTE <= value <= _SORTED_MAX:
        return bytes((value + _SORTED_BIAS,))
    if value > 0:
        magnitude = value - _SORTED_MAX - 1
        length = max((magnitude.bit_length() + 7) // 8, 1)
        return bytes((0xF7 + length,)) + magnitude.to_bytes(length, "big")
    magnitude = value + _ONE_BYTE
    length = max((((-magnitude) - 1).bit_length() + 7) // 8, 1)
    return bytes((0x08 - length,)) + (magnitude + (1 << 8 * length)).to_bytes(length, "big")


def sorted_unpack(data: bytes, pos: int = 0) -> tuple[int, int]:
    """The sorted packed value at ``pos`` and the position after it.

    Raises:
        FormatError: the value runs past the end of ``data``, or the bytes are no 64-bit number.
        IndexError: ``pos`` itself is past the end.
    """
    lead = data[pos]
    pos += 1
    if 0x08 <= lead <= 0xF7:
        return lead - _SORTED_BIAS, pos
    length = lead - 0xF7 if lead > 0xF7 else 0x08 - lead
    end = pos + length
    if end > len(data):
        raise FormatError("sorted packed integer runs past the end")
    magnitude = int.from_bytes(data[pos:end], "big")
    value = magnitude + _SORTED_MAX + 1 if lead > 0xF7 else magnitude - (1 << 8 * length) - _ONE_BYTE
    if not -(1 << 63) <= value < 1 << 63:
        raise FormatError("sorted packed integer", expected="a 64-bit number", found=str(value))
    return value, end


_I16: Final = Struct("<h")
_U32: Final = Struct("<I")
_I32: Final = Struct("<i")
_I64: Final = Struct("<q")


class ByteReader:
    """Reads scalars from a body, front to back.

    Arguments:
        data: the body.
        pos: where to begin.
    """

    __slots__ = ("_data", "pos")

    def __init__(self, data: bytes, pos: int = 0) -> None:
        self._data = data
        self.pos = pos

    def remaining(self) -> int:
        """Bytes that have not been read."""
        return len(self._data) - self.pos

    def raw(self, length: int) -> bytes:
        """The next ``length`` bytes."""
        end = self.pos + length
        # A damaged length can be negative, and slicing would accept it.
        if length < 0 or end > len(self._data):
            raise FormatError(
                "field runs past the end of the entry", expected=plural(length, "byte"), found=self._rest()
            )
        found = self._data[self.pos : end]
        self.pos = end
        return found

    def rest(self) -> bytes:
        """Everything that is left."""
        return self.raw(self.remaining())

    def u8(self) -> int:
        """One unsigned byte."""
        return self.raw(1)[0]

    def i8(self) -> int:
        """One signed byte."""
        value = self.raw(1)[0]
        return value - 256 if value > 127 else value

    def i16(self) -> int:
        """A signed 16-bit number."""
        return int(_I16.unpack(self.raw(2))[0])

    def u32(self) -> int:
        """An unsigned 32-bit number."""
        return int(_U32.unpack(self.raw(4))[0])

    def i32(self) -> int:
        """A signed 32-bit number."""
        return int(_I32.unpack(self.raw(4))[0])

    def i64(self) -> int:
        """A signed 64-bit number."""
        return int(_I64.unpack(self.raw(8))[0])

    def packed(self) -> int:
        """A packed integer: ``pint``, ``plong``, ``lsn`` or ``time``."""
        if self.pos >= len(self._data):
            raise FormatError("field runs past the end of the entry", expected="a packed integer", found=self._rest())
        value, self.pos = unpack(self._data, self.pos)
        return value

    def count(self, least_bytes: int = 1) -> int:
        """Read a packed count of elements that take at least ``least_bytes`` bytes each.

        Raises:
            FormatError: negative, or more than the rest of the body can hold.
        """
        value = self.packed()
        # Check before a list is built: a damaged count must not allocate memory.
        if value < 0 or value * least_bytes > self.remaining():
            raise FormatError("impossible count", expected=f"0..{self.remaining() // least_bytes}", found=str(value))
        return value

    def nullable_bytes(self) -> bytes | None:
        """A byte array with its length; length -1 is None."""
        length = self.packed()
        return None if length == -1 else self.raw(length)

    def byte_array(self) -> bytes:
        """A byte array that may not be null."""
        return self.raw(self.packed())

    def string(self) -> str:
        """A text in UTF-8. Invalid bytes (from old platform charsets) survive a round trip."""
        return self.byte_array().decode("utf-8", "surrogateescape")

    def finish(self) -> None:
        """Check that all bytes were read.

        Raises:
            FormatError: bytes are left over.
        """
        if self.pos != len(self._data):
            raise FormatError("bytes left over at the end of the entry", expected="0", found=self._rest())

    def _rest(self) -> str:
        return plural(self.remaining(), "byte")


class ByteWriter:
    """Collects the bytes of a body."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def raw(self, data: bytes) -> ByteWriter:
        """Bytes without a length."""
        self._parts.append(data)
        return self

    def u8(self, value: int) -> ByteWriter:
        """One unsigned byte."""
        return self.raw(value.to_bytes(1, "little"))

    def i8(self, value: int) -> ByteWriter:
        """One signed byte."""
        return self.raw(value.to_bytes(1, "little", signed=True))

    def i16(self, value: int) -> ByteWriter:
        """A signed 16-bit number."""
        return self.raw(_I16.pack(value))

    def u32(self, value: int) -> ByteWriter:
        """An unsigned 32-bit number."""
        return self.raw(_U32.pack(value))

    def i32(self, value: int) -> ByteWriter:
        """A signed 32-bit number."""
        return self.raw(_I32.pack(value))

    def i64(self, value: int) -> ByteWriter:
        """A signed 64-bit number."""
        return self.raw(_I64.pack(value))

    def packed(self, *values: int) -> ByteWriter:
        """Packed integers."""
        for value in values:
            self._parts.append(pack(value))
        return self

    def nullable_bytes(self, value: bytes | None) -> ByteWriter:
        """A byte array with its length, or length -1."""
        return self.packed(-1) if value is None else self.byte_array(value)

    def byte_array(self, value: bytes) -> ByteWriter:
        """A byte array with its length."""
        return self.packed(len(value)).raw(value)

    def string(self, value: str) -> ByteWriter:
        """A text in UTF-8 with its length in bytes."""
        return self.byte_array(value.encode("utf-8", "surrogateescape"))

    def getvalue(self) -> bytes:
        """All bytes so far."""
        return b"".join(self._parts)
