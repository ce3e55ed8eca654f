"""The types of fields in binary messages (je-ha-protocol.md section 3).

===========  ======================================================================
type         bytes
===========  ======================================================================
``FLAG``     u8, 0 or 1
``SHORT``    i16; the numbers here and below are little-endian
``INT``      i32
``LONG``     i64
``TEXT``     i32 length, then the bytes of a text
``WORD``     the same, one of a list
``RELEASE``  the same: ``18.3.20``, or empty
``BYTES``    i32 length, then bytes
``TEXTS``    i32 number of texts, then each
``LONGS``    i32 number, then each
``PAIR``     the name of a node and its id
===========  ======================================================================

For any bytes, reading raises only FormatError, and a length or count is compared with the available bytes before
anything is allocated. Writing is stricter than reading: JE uses the charset of its platform, so texts that are sent
must be printable ASCII. A release that JE cannot parse would stop a master, so it is never sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from engine.errors import FormatError
from engine.format.bytecursor import LONG_BYTES, ByteReader, ByteWriter

T = TypeVar("T")
_LENGTH_BYTES: Final = 4
# Names, addresses, reasons: the longest accepted text, in bytes.
LONGEST_TEXT: Final = 1 << 16
_RELEASE: Final = re.compile(r"(?:\d{1,6}\.\d{1,6}\.\d{1,6}(?:\.[\w.-]{1,40})?)?", re.ASCII)


class Value(Generic[T]):
    """How one type of field is read and written.

    Arguments:
        read: decodes the value from a body.
        write: encodes it; raises FormatError for a value that must not be sent.
    """

    def __init__(self, read: Callable[[ByteReader], T], write: Callable[[ByteWriter, T], object]) -> None:
        self.read = read
        self.write = write


class NameIdPair(NamedTuple):
    """The name of a node and its id; -1 while it has no id. Ids of transient nodes count down from the largest int."""

    name: str
    id: int


def ascii_bytes(text: str) -> bytes:
    """A text that may be sent.

    Raises:
        FormatError: the text is too long, or not printable ASCII.
    """
    if len(text) > LONGEST_TEXT or not text.isascii() or not (text.isprintable() or not text):
        raise FormatError("text of a message", expected=f"printable ASCII, up to {LONGEST_TEXT}", found=repr(text[:80]))
    return text.encode("ascii")


def read_text(reader: ByteReader) -> str:
    """Read a text with its length; bytes that are not UTF-8 are preserved."""
    length = reader.i32()
    if length > LONGEST_TEXT:
        raise FormatError("length of a text", expected=f"up to {LONGEST_TEXT}", found=str(length))
    return reader.raw(length).decode("utf-8", "surrogateescape")


def write_text(writer: ByteWriter, text: str) -> ByteWriter:
    """A text with its length."""
    data = ascii_bytes(text)
    return writer.i32(len(data)).raw(data)


def read_count(reader: ByteReader, least_bytes: int) -> int:
    """Read a number of elements of at least ``least_bytes`` bytes each."""
    count = reader.i32()
    if count < 0 or count * least_bytes > reader.remaining():
        raise FormatError("impossible count", expected=f"0..{reader.remaining() // least_bytes}", found=str(count))
    return count


def read_bytes(reader: ByteReader) -> bytes:
    """Bytes with their length."""
    return reader.raw(reader.i32())


def write_bytes(writer: ByteWriter, data: bytes) -> ByteWriter:
    """Bytes with their length."""
    return writer.i32(len(data)).raw(data)


def _read_flag(reader: ByteReader) -> bool:
    value = reader.u8()
    if value > 1:
        raise FormatError("truth value", expected="0 or 1", found=str(value))
    return value == 1


def _write_release(writer: ByteWriter, text: str) -> ByteWriter:
    if _RELEASE.fullmatch(text) is None:
        raise FormatError("release of JE", expected="a number like 18.3.20", found=repr(text[:80]))
    return write_text(writer, text)


def _read_pair(reader: ByteReader) -> NameIdPair:
    return NameIdPair(read_text(reader), reader.i32())


def _read_texts(reader: ByteReader) -> tuple[str, ...]:
    return tuple(read_text(reader) for _ in range(read_count(reader, _LENGTH_BYTES)))


def _write_texts(writer: ByteWriter, texts: tuple[str, ...]) -> ByteWriter:
    writer.i32(len(texts))
    for text in texts:
        write_text(writer, text)
    return writer


def _read_longs(reader: ByteReader) -> tuple[int, ...]:
    return tuple(reader.i64() for _ in range(read_count(reader, LONG_BYTES)))


def _write_longs(writer: ByteWriter, numbers: tuple[int, ...]) -> ByteWriter:
    writer.i32(len(numbers))
    for number in numbers:
        writer.i64(number)
    return writer


def word(*words: str) -> Value[str]:
    """One of the given texts; any other would stop JE."""

    def checked(text: str) -> str:
        if text not in words:
            raise FormatError("word of a message", expected=", ".join(words), found=repr(text[:80]))
        return text

    return Value(lambda reader: checked(read_text(reader)), lambda writer, text: write_text(writer, checked(text)))


def small(most: int, what: str) -> Value[int]:
    """A byte of 0 to ``most``."""

    def checked(number: int) -> int:
        if not 0 <= number <= most:
            raise FormatError(what, expected=f"0..{most}", found=str(number))
        return number

    return Value(lambda reader: checked(reader.u8()), lambda writer, number: writer.u8(checked(number)))


def small_int(most: int, what: str) -> Value[int]:
    """A number of 0 to ``most`` in four bytes."""

    def checked(number: int) -> int:
        if not 0 <= number <= most:
            raise FormatError(what, expected=f"0..{most}", found=str(number))
        return number

    return Value(lambda reader: checked(reader.i32()), lambda writer, number: writer.i32(checked(number)))


FLAG: Final[Value[bool]] = Value(_read_flag, lambda writer, value: writer.u8(int(value)))
INT: Final[Value[int]] = Value(ByteReader.i32, ByteWriter.i32)
LONG: Final[Value[int]] = Value(ByteReader.i64, ByteWriter.i64)
TEXT: Final[Value[str]] = Value(read_text, write_text)
RELEASE: Final[Value[str]] = Value(read_text, _write_release)
BYTES: Final[Value[bytes]] = Value(read_bytes, write_bytes)
TEXTS: Final[Value[tuple[str, ...]]] = Value(_read_texts, _write_texts)
LONGS: Final[Value[tuple[int, ...]]] = Value(_read_longs, _write_longs)
PAIR: Final[Value[NameIdPair]] = Value(_read_pair, lambda writer, pair: write_text(writer, pair.name).i32(pair.id))
AnyValue = Value[Any]
