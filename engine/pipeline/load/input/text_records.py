"""Records of CSV and JSON lines by the standard library alone, one at a time.

An installation without pyarrow loads its sources through this module. The results are those of ``lines``, ``columns``
and ``sorted_runs``, which work on a block of lines at once.

Example: with the key ``id`` as ``tuple-long`` and the value ``name`` as ``utf8``, the line ``7,ann`` becomes the key
``80 00 00 00 00 00 00 07`` and the value ``61 6e 6e``. The line ``x,bob`` is rejected: ``key id: 'x' is not a whole
number of 64 bits``.
"""

from __future__ import annotations

import base64
import binascii
import bz2
import csv
import gzip
import json
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final, NamedTuple

from engine.errors import JobError, plural
from engine.format.tuples import string_key
from engine.pipeline.load.input import endings, sources, values
from engine.pipeline.load.input.recipe import CSV, RAW, RecordForm, no_style
from engine.pipeline.load.reject_file import RejectedRecord

UNCLOSED: Final = "a quoted field is not closed on this line"
NUMBER: Final = r"^[+-]?[0-9]{1,18}$"
_NUMBER: Final = re.compile(NUMBER)
# Arrow has no limit for a field either; Python's own is 128 KiB.
csv.field_size_limit(sys.maxsize)
_ESCAPE: Final = re.compile(rb"\\(\\|[0-9a-fA-F]{2})")
_SHOWN: Final = 60
_SHOWN_BYTES: Final = 1 << 20
_OPENERS: Final[dict[str, Callable[[str], Any]]] = {".gz": gzip.open, ".bz2": bz2.open}


class TextSource(NamedTuple):
    """Local files of lines.

    Attributes:
        layout: how they are read.
        kinds: columns and their Python types, by the first lines.
        files: in the order of the source.
    """

    layout: sources.Layout
    kinds: dict[str, type]
    files: tuple[str, ...]

    def style(self, name: str) -> str:
        """The style that suits a column.

        Raises:
            UsageError: none does.
        """
        kind = self.kinds[name]
        if kind in (bool, float):
            raise no_style(name, {bool: "bool", float: "double"}[kind])
        return "tuple-long" if kind is int else "utf8"


class BadRecord(NamedTuple):
    """Why a line is no record: the column (from 1) or None, and the reason."""

    column: int | None
    reason: str


def is_readable(layout: sources.Layout) -> bool:
    """Whether the standard library can read a source."""
    if layout.name not in ("csv", "tsv", "jsonl"):
        return False
    if not all(endings.is_local(path) and endings.is_plain(path) for path in layout.paths):
        return False
    files = [file for path in layout.paths for file in endings.files_of(path)]
    return all(not endings.is_packed(file) or file.endswith(tuple(_OPENERS)) for file in files)


def open_source(layout: sources.Layout) -> TextSource:
    """Look at a source that ``is_readable``.

    Raises:
        UsageError: the source is empty. JobError: the source cannot be read.
    """
    files = tuple(file for path in layout.paths for file in endings.files_of(path))
    first = []
    for line in _lines(files[0]):
        first.append(line.rstrip(b"\r"))
        if len(first) == sources.SAMPLE_LINES:
            break
    return TextSource(layout, sources.kinds_of_lines(layout, first), files)


def records(source: TextSource, form: RecordForm) -> Iterator[tuple[bytes, bytes] | RejectedRecord]:
    """Keys and values in the order of the source; a rejected record for a line without them.

    Raises:
        JobError: a file cannot be read.
    """
    parse = _csv_parser(source) if source.layout.form == CSV else json_object
    for file in source.files:
        for number, line in enumerate(_lines(file), 1):
            bare = line.removesuffix(b"\r")
            if number == 1 and source.layout.form == CSV:
                if source.layout.header:
                    continue
                bare = bare.removeprefix(sources.BOM)
            if not bare:
                continue
            found = parse(bare)
            pair = found if isinstance(found, BadRecord) else _pair(source, form, found)
            if isinstance(pair, BadRecord):
                text = bare.decode("utf-8", "backslashreplace")[:_SHOWN_BYTES]
                yield RejectedRecord(file=file, line=number, column=pair.column, reason=pair.reason, record=text)
            else:
                yield pair


def _lines(path: str) -> Iterator[bytes]:
    """Lines without their newlines."""
    opener: Callable[[str], BinaryIO] = next(
        (found for ending, found in _OPENERS.items() if path.endswith(ending)),
        lambda name: open(name, "rb"),  # noqa: PTH123, SIM115 - the user's file; closed below
    )
    try:
        with opener(path) as file:
            yield from (line.removesuffix(b"\n") for line in file)
    except (OSError, EOFError, zlib.error) as error:
        raise JobError("a file of the source cannot be read", file=path, found=str(error).rstrip(". ")) from error


def _csv_parser(source: TextSource) -> Callable[[bytes], dict[str, Any] | BadRecord]:
    names, delimiter = tuple(source.kinds), source.layout.delimiter

    def parse(line: bytes) -> dict[str, Any] | BadRecord:
        fields = csv_fields(line, len(names), delimiter)
        if isinstance(fields, BadRecord):
            return fields
        return dict(zip(names, (field.encode("utf-8", "surrogateescape") for field in fields), strict=True))

    return parse


def csv_fields(line: bytes, count: int, delimiter: str) -> list[str] | BadRecord:
    """The fields of a line of CSV, which has ``count`` columns."""
    # Bytes that are not UTF-8 must be preserved.
    text = line.decode("utf-8", "surrogateescape")
    reader = csv.reader([text, ""], delimiter=delimiter)
    try:
        fields = next(reader)
    except csv.Error as error:
        return BadRecord(None, f"no CSV: {error}")
    # The reader went on to a second line to find the end of the field.
    if reader.line_num > 1:
        return BadRecord(None, UNCLOSED)
    if len(fields) != count:
        return BadRecord(min(len(fields), count) + 1, f"{plural(len(fields), 'column')}, expected {count}")
    return fields


def json_object(line: bytes) -> dict[str, Any] | BadRecord:
    """The object on a JSON line."""
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        return BadRecord(error.colno, f"no JSON: {error.msg}")
    except UnicodeDecodeError:
        return BadRecord(None, "no JSON: not UTF-8")
    except RecursionError:
        # The source determines the nesting, so the recursion limit rejects the line instead of ending the load.
        return BadRecord(None, "no JSON: nested too deeply")
    except ValueError:
        # Python refuses whole numbers of more than 4,300 digits.
        return BadRecord(None, "no JSON: a number has too many digits")
    return record if isinstance(record, dict) else BadRecord(1, "no JSON object")


def _pair(source: TextSource, form: RecordForm, record: dict[str, Any]) -> tuple[bytes, bytes] | BadRecord:
    names = tuple(source.kinds) if source.layout.form == CSV else ()
    key = b""
    for column in form.keys:
        text = member_text(record.get(column.name))
        part = value_bytes(text, column.style)
        if part is None:
            return BadRecord(_place(names, column.name), complaint(f"key {column.name}", text, column.style))
        key += part
    if form.value_format == RAW:
        name = form.values[0]
        text = member_text(record.get(name))
        value = value_bytes(text, form.value_style)
        if value is None:
            return BadRecord(_place(names, name), complaint(f"value {name}", text, form.value_style))
        return key, value
    keys = {column.name for column in form.keys}
    chosen = {name: record.get(name) for name in form.values} if form.values else _without(record, keys)
    if source.layout.form == CSV:
        chosen = {name: part.decode("utf-8", "surrogateescape") for name, part in chosen.items() if part is not None}
    return key, values.to_json(chosen) if form.value_format == "json" else values.pack(chosen)


def _without(record: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: item for name, item in record.items() if name not in names}


def _place(names: tuple[str, ...], name: str) -> int | None:
    return names.index(name) + 1 if name in names else None


def member_text(value: Any) -> bytes | None:
    """A member of a JSON object, or a field of CSV, as text."""
    if value is None or isinstance(value, bytes):
        return value
    return value.encode("utf-8", "replace") if isinstance(value, str) else values.to_json(value)


def value_bytes(value: bytes | None, style: str) -> bytes | None:
    """Text as bytes in a style; None if the style cannot encode it."""
    if value is None:
        return None
    try:
        return _BY_STYLE[style](value)
    except ValueError:
        return None


def complaint(name: str, value: Any, style: str) -> str:
    """Why a value cannot be encoded."""
    if value is None:
        return f"{name} is null"
    shown = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    return f"{name}: {shown[:_SHOWN]!r} is not {_NAMES.get(style, style)}"


def _unescaped(value: bytes) -> bytes:
    # A backslash outside of an escape sequence is an error, not a character.
    if b"\\" in _ESCAPE.sub(b"", value):
        raise ValueError
    return _ESCAPE.sub(lambda found: b"\\" if found[1] == b"\\" else binascii.unhexlify(found[1]), value)


def _number(value: bytes, width: int) -> bytes:
    """Big-endian with the sign bit flipped (t_int, t_long)."""
    text = value.decode("utf-8", "replace").strip()
    if not _NUMBER.fullmatch(text):
        raise ValueError
    bias = 1 << (8 * width - 1)
    number = int(text)
    # A number that does not fit is rejected, not cut off.
    if not -bias <= number < bias:
        raise ValueError
    return (number + bias).to_bytes(width, "big")


_BY_STYLE: Final[dict[str, Callable[[bytes], bytes]]] = {
    "raw": lambda value: value,
    "utf8": lambda value: value,
    "hex": lambda value: binascii.unhexlify(value.removeprefix(b"0x")),
    "text": _unescaped,
    "base64": lambda value: base64.b64decode(value, validate=True),
    "tuple-long": lambda value: _number(value, 8),
    "tuple-int": lambda value: _number(value, 4),
    "tuple-string": lambda value: string_key(value.decode("utf-8", "surrogateescape")),
}
_NAMES: Final = {
    "tuple-long": "a whole number of 64 bits",
    "tuple-int": "a whole number of 32 bits",
    "hex": "an even number of hex digits",
    "text": "text with \\xx for other bytes",
}
