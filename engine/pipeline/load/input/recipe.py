"""Describes how records of a source become keys and values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from engine.errors import UsageError

TABLE: Final = "table"
CSV: Final = "csv"
JSON: Final = "json"
RAW: Final = "raw"
AVRO: Final = "avro"
VALUE_FORMATS: Final = (RAW, "json", "msgpack", AVRO)
STYLES: Final = (RAW, "hex", "text", "utf8", "base64", "tuple-long", "tuple-int", "tuple-string")
# Rank: number of the file and of the split in it, then the record's place in the split.
PLACE_BITS: Final = 32
_ORIGIN_BITS: Final = 31


class SourceColumn(NamedTuple):
    """A column, and how it is encoded: a name of ``STYLES``."""

    name: str
    style: str


class Recipe(NamedTuple):
    """The parameters of a task that reads records.

    Attributes:
        staging: where runs and rejects are written.
        run_bytes: size of a run.
        keep: which record is kept if several have the same key (``runs``).
        form: ``TABLE`` for columns already read; ``CSV``, ``JSON`` for lines.
        names: columns of a CSV line, in order.
        delimiter: between them.
        header: the first line of every CSV file names them.
        keys: columns of the key; several are concatenated.
        values: columns of the value.
        value_format: a name of ``VALUE_FORMATS``; ``RAW`` takes one column.
        value_style: how that column is encoded.
        order_by: column that decides which record with equal keys is later; None for the order of the source.
        files: the files read, by number.
    """

    staging: str
    run_bytes: int
    keep: str
    form: str
    names: tuple[str, ...]
    delimiter: str
    header: bool
    keys: tuple[SourceColumn, ...]
    values: tuple[str, ...]
    value_format: str
    value_style: str
    order_by: str | None
    files: tuple[str, ...]

    def needed(self) -> tuple[str, ...]:
        """The columns to read, each once."""
        wanted = [column.name for column in self.keys] + list(self.values)
        return tuple(dict.fromkeys(wanted + ([self.order_by] if self.order_by else [])))

    def split_bits(self) -> int:
        """Number of bits of a rank for the split within a file."""
        return _ORIGIN_BITS - max(len(self.files) - 1, 0).bit_length()


class RecipeRequest(NamedTuple):
    """The user's options; None if the source decides.

    Attributes:
        key, value: columns.
        key_style, value_style, value_format, order_by: as in ``Recipe``.
    """

    key: tuple[str, ...]
    value: tuple[str, ...] | None
    key_style: str | None
    value_style: str | None
    value_format: str | None
    order_by: str | None


class RecordForm(NamedTuple):
    """How a record becomes a key and a value; see ``Recipe``."""

    keys: tuple[SourceColumn, ...]
    values: tuple[str, ...]
    value_format: str
    value_style: str


def resolve(wanted: RecipeRequest, form: str, names: Sequence[str], style: Callable[[str], str]) -> RecordForm:
    """Choose columns and formats for a source.

    Arguments:
        wanted: the user's options.
        form: of the source.
        names: columns of the source.
        style: gives the style that suits a column, or raises UsageError.

    Raises:
        UsageError: a column is missing, or the format does not support its type.
    """
    # The sample of a JSON source may lack some members, so the whole object is the value.
    is_whole = form == JSON and wanted.value is None
    if is_whole:
        wanted = wanted._replace(value_format=wanted.value_format or "json")
    keys, values, value_format, value_style = _of_columns(wanted, names, style)
    if form == JSON and value_format == AVRO:
        raise UsageError("JSON lines have no columns of one type each, which Avro needs", hint="--value-format json")
    if is_whole and value_format != RAW:
        # An empty list of names means all members, including those that only later lines have.
        values = ()
    return RecordForm(keys=keys, values=values, value_format=value_format, value_style=value_style)


def _of_columns(
    wanted: RecipeRequest, names: Sequence[str], style: Callable[[str], str]
) -> tuple[tuple[SourceColumn, ...], tuple[str, ...], str, str]:
    known = ", ".join(names)
    if not wanted.key:
        raise UsageError("name the column of the key", found=f"columns {known}", hint="--key COLUMN[,COLUMN]")
    for name in (*wanted.key, *(wanted.value or ()), *([wanted.order_by] if wanted.order_by else ())):
        if name not in names:
            raise UsageError(f"the source has no column {name!r}", expected=f"one of {known}")
    values = wanted.value
    if values is None:
        # The column to order by distinguishes versions and is not part of the record.
        values = tuple(name for name in names if name not in wanted.key and name != wanted.order_by)
    value_format = wanted.value_format or (RAW if len(values) == 1 else "json")
    if value_format == RAW and len(values) != 1:
        raise UsageError(
            "a raw value is one column", found=f"{len(values)}: {', '.join(values)}", hint="--value-format json"
        )
    keys = tuple(SourceColumn(name, wanted.key_style or style(name)) for name in wanted.key)
    value_style = wanted.value_style or style(values[0]) if value_format == RAW else RAW
    return keys, values, value_format, value_style


def style_of(name: str, kind: Any) -> str:
    """The style that suits a type.

    Raises:
        UsageError: none does.
    """
    from pyarrow import types

    if types.is_binary(kind) or types.is_large_binary(kind):
        return RAW
    if types.is_string(kind) or types.is_large_string(kind):
        return "utf8"
    # A signed 32-bit integer cannot hold every unsigned one.
    if types.is_int64(kind) or types.is_uint32(kind):
        return "tuple-long"
    if types.is_integer(kind) and not types.is_uint64(kind):
        return "tuple-int"
    raise no_style(name, str(kind))


def no_style(name: str, kind: str) -> UsageError:
    """A column whose type has no form as bytes."""
    return UsageError(
        f"column {name!r} has no form as bytes by itself",
        expected="bytes, text or whole numbers",
        found=kind,
        hint="use another column, or --value-format json for a value",
    )
