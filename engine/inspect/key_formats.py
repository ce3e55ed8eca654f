r"""Bytes as text and back: the formats of ``--key-format`` and ``--data-format``.

============  ==================================================================================
format        text
============  ==================================================================================
hex           two lower-case digits per byte
text          printable ASCII as it is, any other byte (and the backslash) as ``\xx``, as DbDump -p does
utf8          UTF-8; control characters and bytes that are no UTF-8 as ``\xx``, the backslash doubled
base64        RFC 4648, with padding
tuple-long    8 bytes, big-endian, sign bit flipped (JE's LongBinding)
tuple-int     4 bytes, the same (JE's IntegerBinding)
tuple-string  UTF-8 and a zero byte; ``ff 00`` is null (JE's StringBinding)
============  ==================================================================================

Bytes that are not of the stated tuple format are shown in hex with ``0x`` before them: they must not look like a value
of the format. ``parse`` is the inverse of ``show``; it accepts ``0x`` hex in every format except base64, where ``0``
and ``x`` are digits. A text that literally begins with ``0x`` is therefore shown and entered as ``\30x``.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Callable
from typing import Final

from engine.errors import plural

_LONG: Final = struct.Struct(">Q")
_INT: Final = struct.Struct(">I")
_NULL_STRING: Final = b"\xff\x00"
_ESCAPE: Final = re.compile(rb"\\(\\|[0-9a-fA-F]{2})")


def show(data: bytes, style: str) -> str:
    """Bytes in one of the formats of the table.

    Arguments:
        data: any bytes.
        style: a name of ``FORMATS``.
    """
    return _SHOW[style](data)


def parse(text: str, style: str) -> bytes:
    """The bytes for a text in the given format.

    Arguments:
        text: what the user wrote.
        style: a name of ``FORMATS``.

    Raises:
        ValueError: the text is not in that format; the message describes the expected form.
    """
    if text.startswith("0x") and style != "base64":
        return _parse_hex(text[2:])
    return _PARSE[style](text)


def _show_text(data: bytes) -> str:
    return _no_prefix("".join(chr(b) if 0x20 <= b < 0x7F and b != 0x5C else _escaped(b) for b in data))


def _no_prefix(text: str) -> str:
    # Escape the 0: ``parse`` would read a text that begins with ``0x`` as hex.
    return "\\30" + text[1:] if text.startswith("0x") else text


def _escaped(byte: int) -> str:
    return "\\\\" if byte == 0x5C else f"\\{byte:02x}"


def _show_utf8(data: bytes) -> str:
    # Bytes that are no UTF-8 arrive as lone surrogates U+DC80..U+DCFF, which str.isprintable refuses.
    return _no_prefix("".join(_character(c) for c in data.decode("utf-8", "surrogateescape")))


def _character(c: str) -> str:
    if c != "\\" and c.isprintable():
        return c
    return "".join(_escaped(b) for b in c.encode("utf-8", "surrogateescape"))


def _show_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _show_long(data: bytes) -> str:
    return str(_LONG.unpack(data)[0] - (1 << 63)) if len(data) == 8 else f"0x{data.hex()}"


def _show_int(data: bytes) -> str:
    return str(_INT.unpack(data)[0] - (1 << 31)) if len(data) == 4 else f"0x{data.hex()}"


def _show_string(data: bytes) -> str:
    if data == _NULL_STRING or not data.endswith(b"\0") or b"\0" in data[:-1]:
        return f"0x{data.hex()}"
    return _show_utf8(data[:-1])


def _parse_hex(text: str) -> bytes:
    try:
        return binascii.unhexlify(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not an even number of hex digits") from error


def _parse_text(text: str) -> bytes:
    def byte(match: re.Match[bytes]) -> bytes:
        return b"\\" if match[1] == b"\\" else binascii.unhexlify(match[1])

    return _ESCAPE.sub(byte, text.encode("utf-8", "surrogateescape"))


def _parse_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text!r} is not base64") from error


def _parse_number(text: str, layout: struct.Struct) -> bytes:
    bias = 1 << (8 * layout.size - 1)
    try:
        number = int(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a decimal integer") from error
    if not -bias <= number < bias:
        raise ValueError(f"{text} does not fit into {plural(layout.size, 'byte')}")
    return layout.pack(number + bias)


_SHOW: Final[dict[str, Callable[[bytes], str]]] = {
    "hex": lambda data: data.hex(),
    "text": _show_text,
    "utf8": _show_utf8,
    "base64": _show_base64,
    "tuple-long": _show_long,
    "tuple-int": _show_int,
    "tuple-string": _show_string,
}

_PARSE: Final[dict[str, Callable[[str], bytes]]] = {
    "hex": _parse_hex,
    "text": _parse_text,
    "utf8": _parse_text,
    "base64": _parse_base64,
    "tuple-long": lambda text: _parse_number(text, _LONG),
    "tuple-int": lambda text: _parse_number(text, _INT),
    "tuple-string": lambda text: _parse_text(text) + b"\0",
}

FORMATS: Final = tuple(_SHOW)
