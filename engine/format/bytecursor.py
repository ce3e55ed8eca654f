"""Bounded reading and writing of one body: the scalars of je-log-format.md section 1.

``ByteReader`` never reads past the body: every overrun is a ``FormatError``, and a count or a length is checked against
the bytes that remain before anything is built from it. ``ByteWriter`` is its mirror; what one writes the other reads.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from engine.errors import FormatError
from engine.format.packed import pack, unpack

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
        # A damaged length can be negative, and a slice would take it.
        if length < 0 or end > len(self._data):
            raise FormatError("field runs past the end of the entry", expected=f"{length} bytes", found=self._rest())
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
        """A packed number of elements that take at least ``least_bytes`` bytes each.

        Raises:
            FormatError: negative, or more than the rest of the body can hold.
        """
        value = self.packed()
        # Before a list is built: a damaged count must cost no memory.
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
        """A text in UTF-8. Bytes that are none (old platform charsets) survive a round trip."""
        return self.byte_array().decode("utf-8", "surrogateescape")

    def finish(self) -> None:
        """Check that nothing is left.

        Raises:
            FormatError: bytes are left over.
        """
        if self.pos != len(self._data):
            raise FormatError("bytes left over at the end of the entry", expected="0", found=self._rest())

    def _rest(self) -> str:
        return f"{self.remaining()} bytes"


class ByteWriter:
    """Collects the bytes of a body."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def raw(self, data: bytes) -> ByteWriter:
        """Bytes as they are."""
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
