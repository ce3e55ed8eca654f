"""Tuple encodings: the scalars in keys and data of internal databases (je-log-format.md 4.6).

==========  =====  =====================================================================
name        bytes  form
==========  =====  =====================================================================
``t_byte``  1      value XOR 0x80
``t_int``   4      big-endian, sign bit flipped
``t_long``  8      big-endian, sign bit flipped; 0 is ``80 00 00 00 00 00 00 00``
``t_uint``  4      big-endian, unsigned
``t_bool``  1      1 or 0
``t_str``          UTF-8, then ``00``; null is ``ff 00``
==========  =====  =====================================================================

With the sign bit flipped, byte order equals the order of the numbers, so a key -1 sorts before all others.
"""

from __future__ import annotations

from typing import Final

from engine.errors import FormatError, plural
from engine.format.bytecursor import ByteReader, ByteWriter

LONG_KEY_BYTES: Final = 8
_LONG_BIAS: Final = 1 << 63
_INT_BIAS: Final = 1 << 31
_NULL_STRING: Final = b"\xff"
# Java writes U+0000 within a text as two bytes, since 00 ends it.
ENCODED_NUL: Final = b"\xc0\x80"


def long_key(value: int) -> bytes:
    """A key that is one ``t_long``."""
    return (value + _LONG_BIAS).to_bytes(LONG_KEY_BYTES, "big")


def parse_long_key(key: bytes) -> int:
    """The number in a key that is one ``t_long``.

    Raises:
        FormatError: the key is not 8 bytes long.
    """
    if len(key) != LONG_KEY_BYTES:
        raise FormatError("key of an internal database", expected="8 bytes", found=f"{len(key)}")
    return int.from_bytes(key, "big") - _LONG_BIAS


def string_key(text: str) -> bytes:
    """A key that is one ``t_str``."""
    return write_string(ByteWriter(), text).getvalue()


def parse_string_key(key: bytes) -> str:
    """The text in a key that is one ``t_str``.

    Raises:
        FormatError: the bytes are not such a key.
    """
    reader = ByteReader(key)
    text = read_string(reader)
    reader.finish()
    if text is None:
        raise FormatError("key of an internal database", expected="a text", found="null")
    return text


def read_byte(reader: ByteReader) -> int:
    """A ``t_byte``, -128 to 127."""
    return reader.u8() - 0x80


def write_byte(writer: ByteWriter, value: int) -> ByteWriter:
    """A ``t_byte``."""
    return writer.u8(value + 0x80)


def read_int(reader: ByteReader) -> int:
    """A ``t_int``."""
    return int.from_bytes(reader.raw(4), "big") - _INT_BIAS


def write_int(writer: ByteWriter, value: int) -> ByteWriter:
    """A ``t_int``."""
    return writer.raw((value + _INT_BIAS).to_bytes(4, "big"))


def read_long(reader: ByteReader) -> int:
    """A ``t_long``."""
    return int.from_bytes(reader.raw(8), "big") - _LONG_BIAS


def write_long(writer: ByteWriter, value: int) -> ByteWriter:
    """A ``t_long``."""
    return writer.raw(long_key(value))


def read_bool(reader: ByteReader) -> bool:
    """A ``t_bool``.

    Raises:
        FormatError: neither 0 nor 1.
    """
    value = reader.u8()
    if value > 1:
        raise FormatError("truth value", expected="0 or 1", found=str(value))
    return value == 1


def write_bool(writer: ByteWriter, value: bool) -> ByteWriter:
    """A ``t_bool``."""
    return writer.u8(int(value))


def read_string(reader: ByteReader) -> str | None:
    """A ``t_str``, or None for null.

    Raises:
        FormatError: the end is missing.
    """
    rest = reader.rest()
    end = rest.find(0)
    if end < 0:
        raise FormatError("text without its end", expected="00", found=plural(len(rest), "byte"))
    # Continue after the text: ``rest`` has consumed all bytes.
    reader.pos -= len(rest) - end - 1
    text = rest[:end]
    return None if text == _NULL_STRING else text.replace(ENCODED_NUL, b"\0").decode("utf-8", "surrogateescape")


def write_string(writer: ByteWriter, value: str | None) -> ByteWriter:
    """A ``t_str``."""
    if value is None:
        return writer.raw(_NULL_STRING + b"\0")
    return writer.raw(value.encode("utf-8", "surrogateescape").replace(b"\0", ENCODED_NUL) + b"\0")
