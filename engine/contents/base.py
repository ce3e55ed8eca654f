"""The input and the results of content decoders, and the form of unknown bytes.

A **kind of contents** (``Contents``) recognises an environment by its databases and makes a **decoder** for it. The
decoder turns keys and data into values for JSON. It returns bytes that it cannot decode as ``{"hex": "00ff"}`` and sets
``known`` to False; it never guesses. A decoder is plain data and functions, so that it can be sent to other processes.
Its input may be damaged or hostile; its errors are ``FormatError`` or ``ValueError``. Two bytes of a record may stand
for something long (a class, a constant, a deflated value), so a decoder counts its output against an ``Allowance``:
work and memory are bounded by the size of the record.

A package adds a kind with an entry point of the group ``jetool.contents`` that names a ``Contents`` object
(``engine.contents.registry``).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn, Protocol, TypeAlias

from engine.errors import FormatError, plural
from engine.format.tuples import ENCODED_NUL

Json: TypeAlias = Any
# The deepest nesting accepted in foreign JSON. Python's parser fails only at the recursion limit, which a caller may
# have raised.
_DEEPEST: Final = 200
# The allowance of a record in characters and values: a number for each byte, plus a minimum for short records.
_GROWTH: Final = 64
_LEAST_ALLOWANCE: Final = 1 << 16


class DecodedRecord(NamedTuple):
    """A decoded record.

    Attributes:
        key, data: values for JSON; bytes that are not known are ``{"hex": ...}``.
        known: whether the whole record was decoded.
    """

    key: Json
    data: Json
    known: bool


class Source(Protocol):
    """What a kind of contents can read: an environment, or the readable part of one."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the databases, without JE's own."""

    def records(self, name: str, limit: int, *, last: bool = False) -> Iterable[tuple[bytes, bytes]]:
        """At most ``limit`` records from the start, or with ``last`` the end, of a database; empty if it cannot be
        read.
        """

    def comparators(self) -> Mapping[str, str]:
        """The Java comparator class of each database that has one, by database name."""


class Decoder(Protocol):
    """Decodes the records of one environment."""

    def decode(self, database: str, key: bytes, data: bytes) -> DecodedRecord:
        """A record.

        Raises:
            FormatError: the record is not in the form that the application writes. ValueError: the same.
        """


class Contents(Protocol):
    """A kind of contents."""

    @property
    def name(self) -> str:
        """As ``--decode`` takes it."""

    @property
    def title(self) -> str:
        """The name of the application, for messages."""

    def recognises(self, source: Source) -> bool:
        """Whether an environment is of this kind."""

    def decoder(self, source: Source) -> Decoder:
        """The decoder for an environment, with everything that it needs from other records."""


def hexed(data: bytes) -> Json:
    """Unknown bytes."""
    return {"hex": data.hex()}


def unknown(key: bytes, data: bytes) -> DecodedRecord:
    """An unknown record."""
    return DecodedRecord(hexed(key), hexed(data), False)


class Allowance:
    """The number of characters and values that the decoder may still produce in addition to the bytes of the record.

    Arguments:
        size: bytes of the record.
        growth: characters or values allowed per byte.
    """

    def __init__(self, size: int, growth: int = _GROWTH) -> None:
        self._left = size * growth + _LEAST_ALLOWANCE

    def spend(self, count: int) -> None:
        """Use up part of the allowance. FormatError: it is exhausted."""
        self._left -= count
        if self._left < 0:
            raise FormatError("record", expected="names and values in proportion to its bytes", found="far more")


def parse_json(text: bytes) -> Json:
    """Parse a JSON text that another program wrote.

    Raises:
        ValueError: the text is not JSON, nests too deep, has an infinite number, or has a string that is not valid
            Unicode.
    """
    # Brackets inside strings count too: that errs on the safe side, and no parser is needed.
    if text.count(b"[") + text.count(b"{") > _DEEPEST and _depth(text) > _DEEPEST:
        raise ValueError("JSON nested too deep")
    whole = text.decode("utf-8")
    found, end = _DECODER.raw_decode(whole)
    if end != len(whole):
        raise ValueError(f"{plural(len(whole) - end, 'character')} after a JSON text")
    if b"\\ud" in text or b"\\uD" in text:
        # A lone surrogate could not be printed.
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    return found


def _depth(text: bytes) -> int:
    deepest = depth = 0
    for byte in text:
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"a number larger than any: {text[:20]}")
    return value


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)


def modified_utf8(data: bytes) -> str:
    """Decode Java's form of UTF-8, in which U+0000 takes two bytes, and a character beyond U+FFFF is two encoded
    surrogates. ValueError: the bytes do not have this form.
    """
    text = data.replace(ENCODED_NUL, b"\0").decode("utf-8", "surrogatepass")
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be")


class Fields:
    """Reads fields one after the other; never past the end.

    Arguments:
        data: the bytes.
        at: where the first field begins.
    """

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    @property
    def left(self) -> int:
        """Bytes after the last field."""
        return len(self.data) - self.at

    def raw(self, count: int) -> bytes:
        """The next ``count`` bytes. Raises FormatError when fewer are left."""
        if not 0 <= count <= self.left:
            raise FormatError("field of a record", expected=plural(count, "byte"), found=f"{self.left}")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, size: int, *, signed: bool = True) -> int:
        """A big-endian number of ``size`` bytes."""
        return int.from_bytes(self.raw(size), "big", signed=signed)

    def sortable(self, size: int) -> int:
        """A big-endian number whose sign bit is flipped, as JE's tuple bindings write it."""
        return int.from_bytes(self.raw(size), "big") - (1 << (8 * size - 1))

    def text(self, count: int) -> str:
        """The text of the next ``count`` bytes. Raises ValueError if the bytes are not valid UTF-8."""
        return self.raw(count).decode("utf-8")

    def until(self, end: int) -> bytes:
        """The bytes before the next byte of this value, which is skipped. FormatError: no such byte follows."""
        found = self.data.find(end, self.at)
        if found < 0:
            raise FormatError("field of a record", expected=f"an end byte {end:#04x}", found="none")
        start, self.at = self.at, found + 1
        return self.data[start:found]

    def rest(self) -> bytes:
        """All that is left."""
        return self.raw(self.left)

    def finish(self) -> None:
        """Raise FormatError when something is left."""
        if self.left:
            raise FormatError("record", expected="its end", found=f"{plural(self.left, 'byte')} more")
