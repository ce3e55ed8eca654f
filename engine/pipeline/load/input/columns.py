"""Columns of records as bytes: the styles of ``--key-format``, so that keys sort as JE's bindings sort them.

A value that cannot be encoded in the style is null in the result. Whole columns are converted at once if numpy can do
it; styles that depend on every character are converted value by value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.pipeline.load.input.text_records import NUMBER, value_bytes


def encoded(column: Any, style: str) -> Any:
    """A column as bytes.

    Arguments:
        column: an Arrow array.
        style: a name of ``recipe.STYLES``.

    Returns:
        A ``large_binary`` array; null if there is no value or the style cannot encode it.
    """
    if style in ("tuple-long", "tuple-int"):
        return _numbers(column, 8 if style == "tuple-long" else 4)
    plain = binary(column)
    if style in ("raw", "utf8"):
        return plain
    # Zero bytes inside are escaped; without any, a tuple string only adds the terminating zero.
    if style == "tuple-string" and not _has_zero(plain):
        return pc.binary_join_element_wise(plain, _constant(b""), _constant(b"\0"))
    return pa.array([value_bytes(value, style) for value in plain.to_pylist()], plain.type)


def joined(columns: list[Any]) -> Any:
    """Several columns concatenated, value by value; null if any value is null."""
    if len(columns) == 1:
        return columns[0]
    return pc.binary_join_element_wise(*columns, _constant(b""))


def ranks(column: Any) -> tuple[Any, Any]:
    """Convert a column to numbers with the same order: integers, decimals, dates and times, or text of these.

    Returns:
        The ``int64`` array, and the rows without a rank.
    """
    kind = column.type
    types = pa.types
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_string(kind) or types.is_large_string(kind):
        column = _parsed(pc.cast(column, pa.large_string(), safe=False))
        kind = column.type
    if types.is_date32(kind):
        column, kind = pc.cast(column, pa.timestamp("us")), pa.timestamp("us")
    if types.is_timestamp(kind):
        column = pc.cast(pc.cast(column, pa.timestamp("us", kind.tz), safe=False), pa.int64())
    elif types.is_floating(kind) or types.is_decimal(kind):
        column = _sortable(pc.cast(column, pa.float64(), safe=False))
    else:
        column = pc.cast(column, pa.int64(), safe=False)
    return pc.fill_null(column, 0), pc.is_null(column)


def binary(column: Any) -> Any:
    """A column of bytes or text as ``large_binary``; numbers and other types become text."""
    kind = column.type
    if pa.types.is_large_binary(kind):
        return column
    if not (pa.types.is_binary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        column = pc.cast(column, pa.string())
    return pc.cast(column, pa.large_binary())


def _numbers(column: Any, width: int) -> Any:
    """Big-endian with the sign bit flipped (t_int, t_long)."""
    if not pa.types.is_integer(column.type):
        text = pc.utf8_trim_whitespace(pc.cast(binary(column), pa.large_string(), safe=False))
        # The cast would raise for the whole column, so values that are not numbers become null first.
        good = pc.match_substring_regex(text, NUMBER)
        column = pc.cast(pc.replace_substring(pc.if_else(good, text, None), "+", "", max_replacements=1), pa.int64())
    numbers = pc.fill_null(pc.cast(column, pa.int64()), 0).to_numpy(zero_copy_only=False)
    bias = 1 << (8 * width - 1)
    valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
    # A number that does not fit is rejected, not truncated.
    if width < 8:
        valid = valid & (numbers >= -bias) & (numbers < bias)
    # Adding the bias modulo 2^64 flips the sign bit, so that negative numbers sort first.
    flipped = (numbers.astype(np.uint64) + np.uint64(bias % (1 << 64))) if width == 8 else numbers + bias
    data = np.ascontiguousarray(flipped).astype(">u8" if width == 8 else ">u4")
    offsets = np.arange(len(numbers) + 1, dtype=np.int64) * width
    # The validity of rows is set last: until then even invalid rows have some bytes.
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    found = pa.Array.from_buffers(pa.large_binary(), len(numbers), buffers)
    return found if valid.all() else pc.if_else(pa.array(valid), found, None)


def _parsed(text: Any) -> Any:
    """Text as whole numbers, else as numbers, else as times, else null."""
    last: Any = pa.nulls(len(text), pa.int64())
    for kind in (pa.int64(), pa.float64(), pa.timestamp("us")):
        try:
            return pc.cast(text, kind)
        except pa.ArrowInvalid:
            continue
    # In a mixed column numbers keep their rank, and other values have no rank.
    numbers = pc.match_substring_regex(text, r"^[+-]?[0-9]+(\.[0-9]+)?$")
    for kind in (pa.float64(),):
        last = pc.cast(pc.if_else(numbers, text, None), kind)
    return last


def _sortable(column: Any) -> Any:
    """Doubles as whole numbers in the same order."""
    bits = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False).view(np.int64)
    # The bits of negative doubles sort backwards; inverted, they sort before all positive ones.
    order = np.where(bits < 0, np.int64(-(1 << 63)) - bits - 1, bits)
    return pc.if_else(pc.is_valid(column), pa.array(order), None)


def _has_zero(column: Any) -> bool:
    return bool(pc.any(pc.greater_equal(pc.find_substring(column, b"\0"), 0)).as_py())


def _constant(value: bytes) -> Any:
    return pa.scalar(value, pa.large_binary())
