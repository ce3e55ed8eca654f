"""Fast rendering of many rows from columns: each column is converted to texts, which are then joined by row.

For streams of millions of rows of one shape. A repeated value of a column, such as a word, a flag or a time, is
converted only once. ``Encoder.rows`` is the general path for everything else; a test compares both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from engine.fields import Row, Shape, Shaped, shape_of
from engine.format.lsn import format_lsn, is_null
from jetool.output.base import Encoder
from jetool.output.jsonl import NdjsonEncoder, line, without_steering
from jetool.output.shape import Style, to_json, to_text
from jetool.output.text import TextEncoder, encode

_PLAIN: Final = "int"
_LSN: Final = "lsn"
# Kinds of bytes, and the format that applies to each.
_BYTES: Final[dict[str, Callable[[Style], str]]] = {
    "key": lambda style: style.key_format,
    "data": lambda style: style.data_format,
}


def rendered(encoder: Encoder, of: Shaped, by_name: Mapping[str, Sequence[Any]]) -> bytes:
    """Records of one class.

    Arguments:
        encoder: the encoder of the stream.
        of: the class of the records, one of the classes of the stream.
        by_name: the values of each field; they must be hashable, so use tuples for lists. All are equally long.
    """
    shape = shape_of(of)
    columns = [by_name[name] for name in shape.names()]
    if isinstance(encoder, TextEncoder) and encoder.has_columns_of(shape):
        return _as_text(encoder, shape, columns)
    if isinstance(encoder, NdjsonEncoder) and encoder.has_columns_of(shape):
        return _as_json(encoder, shape, columns)
    return encoder.rows((shape.rec, _row(shape, values)) for values in zip(*columns, strict=True))


def _row(shape: Shape, values: Sequence[Any]) -> Row:
    return [(field.name, field.kind, value) for field, value in zip(shape.fields, values, strict=True)]


def _as_text(encoder: TextEncoder, shape: Shape, columns: Sequence[Sequence[Any]]) -> bytes:
    texts = [texts_of(field.kind, column, encoder.style) for field, column in zip(shape.fields, columns, strict=True)]
    # One format for a whole row takes a third of the time of padding each value.
    form = "  ".join(f"%{'' if pad is str.rjust else '-'}{width}s" for pad, width in encoder.pads)
    return encode("".join([f"{(form % row).rstrip()}\n" for row in zip(*texts, strict=True)]))


def texts_of(kind: str, column: Sequence[Any], style: Style) -> Sequence[str | int]:
    """The values of a column as text; integers may stay as they are."""
    return _texts(kind, column, style, to_text, "-")


def _as_json(encoder: NdjsonEncoder, shape: Shape, columns: Sequence[Sequence[Any]]) -> bytes:
    texts = [
        _texts(field.kind, column, encoder.style, _json_text, "null")
        for field, column in zip(shape.fields, columns, strict=True)
    ]
    members = ",".join(f'"{field.name}":%s' for field in shape.fields)
    form = f'{{"rec":"{shape.rec}",{members}}}'
    between = encoder.between.decode()
    end = "" if between else "\n"
    return without_steering(between.join([form % row + end for row in zip(*texts, strict=True)]))


def _json_text(kind: str, value: Any, style: Style) -> str:
    return line(to_json(kind, value, style)).decode()


def _texts(
    kind: str, column: Sequence[Any], style: Style, general: Callable[[str, Any, Style], str], none: str
) -> Sequence[str | int]:
    """The texts of a column; a format makes those of integers."""
    if kind == _PLAIN and None not in column:
        return column
    if kind == _LSN and None not in column:
        return _lsn_texts(column, "" if none == "-" else '"', none)
    if kind in _BYTES and _BYTES[kind](style) == "hex" and None not in column:
        before, after = ("0x", "") if none == "-" else ('"', '"')
        return [f"{before}{value.hex()}{after}" for value in column]
    different = set(column)
    # Texts of repeated values are created once.
    if len(different) * 2 < len(column):
        texts = {value: general(kind, value, style) for value in different}
        return [texts[value] for value in column]
    return [general(kind, value, style) for value in column]


def _lsn_texts(column: Sequence[int], mark: str, none: str) -> list[str]:
    if column and min(column) >= 0:
        return [f"{mark}0x{lsn >> 32:x}/0x{lsn & 0xFFFFFFFF:x}{mark}" for lsn in column]
    return [none if is_null(lsn) else f"{mark}{format_lsn(lsn)}{mark}" for lsn in column]
