"""How values of each kind look as text and as JSON, and the JSON Schema of a record.

All output consists of records whose fields have a kind (``engine.fields``). The class of a record defines the columns
of tables and CSV, the names that ``--fields`` accepts, and the JSON Schema that ``jetool schema`` prints; a test
validates real output against it.

A kind is the type of a value; only this module defines the format of LSNs, times, keys and so on. Entries of the log
(``engine.format.describe``) and records provide values with kinds, and renderers format them with this module. A value
of None is ``-`` in text and null in JSON, whatever the kind.

=============  =====================  ===========================  ==================================
kind           value                  text                         JSON
=============  =====================  ===========================  ==================================
int            int                    ``1459``                     1459
float          float                  ``0.25``                     0.25
hex            int                    ``0x4b01af63``               the number
bool           bool                   ``yes``, ``no``              true, false
text           str                    control characters as ``\\xx``  the string
bytes          bytes                  ``0x`` and hex digits        hex digits
key, data      bytes                  --key-format, --data-format  the same
lsn            64-bit int             ``0x1f/0x2a3c``              the same text; -1 is null
instant        64-bit int             ``(1,41725)``, as in Derby   the same text; 0 is null
vlsn           int                    ``17``                       17; -1 is null
time           int, ms since 1970     ``2026-11-21T14:01:01.250Z``    the same text
expiration     int, days or -hours    ``2026-11-21``, or with hour    the same text; 0 is null
duration_ms    int                    ``1.250 s``                  1250
size_bytes     int                    ``9.5 MiB``                  the number of bytes
level          int, with tree bits    ``0x10001``                  the number
json           value of JSON          compact JSON                 the value itself
record         row or engine record   its fields, nested           object
=============  =====================  ===========================  ==================================

Lists have kinds of their own, ``LISTS``: separated by commas in text, an array in JSON.

Hex bytes have the prefix ``0x`` in text, so that they can be pasted after ``--key``, but not in JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from engine.fields import LISTS, Field, Row, Shaped, is_record, row_of, shape_of
from engine.format.lsn import format_lsn, is_null
from engine.format.vlsn import NULL_VLSN
from engine.inspect.key_formats import show

_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
# A range of numbers, such as journal ids.
_RANGE: Final = [("first", "int"), ("last", "int")]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND_MS: Final = 1000


class Style(NamedTuple):
    """The user's format options; plain values, so that they can be sent to worker processes.

    Attributes:
        tz: time zone of printed times.
        key_format: a name of ``engine.inspect.key_formats.FORMATS``, for kind ``key``.
        data_format: the same for kind ``data``.
        color: whether text may contain terminal colours.
        width: width of the terminal; None for a file or a pipe.
    """

    tz: tzinfo = UTC
    key_format: str = "hex"
    data_format: str = "hex"
    color: bool = False
    width: int | None = None


PLAIN: Final = Style()


def to_text(kind: str, value: Any, style: Style = PLAIN) -> str:
    """A value as text. Lists are joined by commas, nested rows are ``name=value``."""
    return "-" if value is None else TEXTS[kind](value, style)


def to_json(kind: str, value: Any, style: Style = PLAIN) -> Any:
    """A value for ``json.dumps``."""
    if value is None:
        return None
    if kind in LISTS:
        return [to_json(LISTS[kind], item, style) for item in value]
    return KINDS[kind].json(value, style)


def row_to_json(row: Any, style: Style = PLAIN) -> dict[str, Any]:
    """A row as a JSON object, fields in their order."""
    return {name: value if kind in AS_IT_IS else to_json(kind, value, style) for name, kind, value in fields_of(row)}


def lsn_text(lsn: int) -> str | None:
    """An LSN in JE's spelling; None for a null LSN."""
    return None if is_null(lsn) else format_lsn(lsn)


def instant_text(instant: int) -> str | None:
    """A log instant as Derby prints it, ``(file,position)``; None for a null instant."""
    return f"({instant >> 32},{instant & 0xFFFFFFFF})" if instant else None


def time_text(ms: int, tz: tzinfo = UTC) -> str:
    """A time as ISO-8601 with milliseconds. A value outside the years 1 to 9999 is printed as a number of ms."""
    second, rest = divmod(ms, _SECOND_MS)
    # Only UTC itself is printed as Z; a zone that equals UTC at this time, such as London in winter, keeps its offset.
    parts = _second_text(second, tz, tz is UTC)
    # Times come from disk, and a damaged one must not end the run.
    return f"{ms} ms" if parts is None else f"{parts[0]}.{rest:03d}{parts[1]}"


# Consecutive times often share a second, so the calendar conversion is cached.
@lru_cache(maxsize=256)
def _second_text(second: int, tz: tzinfo, is_utc: bool) -> tuple[str, str] | None:
    """The text before and after the milliseconds; None for a time outside the calendar."""
    try:
        moment = (_EPOCH + timedelta(seconds=second)).astimezone(tz)
    except OverflowError:
        return None
    text = moment.isoformat(timespec="milliseconds")
    before, _, after = text.partition(".000")
    return before, after.replace("+00:00", "Z") if is_utc else after


def expiration_text(expiration: int) -> str | None:
    """The UTC day (positive: days since 1970) or hour (negative: hours) at the start of which a record expires."""
    if expiration == 0:
        return None
    # Negative numbers count hours, positive ones days.
    if expiration < 0:
        return time_text(-expiration * 3_600_000)
    text = time_text(expiration * 86_400_000)
    return text.partition("T")[0]


def size_text(size: int) -> str:
    """A number of bytes with a binary unit, exact below 10 KiB."""
    if abs(size) < 10_240:
        return f"{size} B"
    # Each unit is ten bits.
    power = min((abs(size).bit_length() - 1) // 10, len(_UNITS))
    return f"{size / (1 << 10 * power):.1f} {_UNITS[power - 1]}"


def printable(text: str) -> str:
    """Text without control characters: names come from disk and must not control the operator's terminal."""
    return text if text.isprintable() else show(text.encode("utf-8", "surrogateescape"), "utf8")


def _bytes_text(data: bytes, form: str) -> str:
    shown = show(data, form)
    return f"0x{shown}" if form == "hex" else shown


def fields_of(record: Any) -> Row:
    """The fields of a value of kind ``record``: a row, an output record, or an entry's record described by
    the engine.
    """
    if is_record(record):
        return row_of(record)
    if not hasattr(record, "_fields"):
        return cast(Row, record)
    from engine.format.describe import describe

    return describe(record)


def _record_text(record: Any, style: Style) -> str:
    fields = fields_of(record)
    if [(name, kind) for name, kind, _ in fields] == _RANGE:
        first, last = (str(value) for _, _, value in fields)
        return first if first == last else f"{first}-{last}"
    return "{" + " ".join(f"{name}={to_text(kind, value, style)}" for name, kind, value in fields) + "}"


def _json_text(value: Any) -> str:
    import json

    return printable(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


class ValueKind(NamedTuple):
    """The formats of values of one kind.

    Attributes:
        text: converts value and style to text.
        json: converts value and style to a JSON value.
        schema: JSON Schema of that value.
        null: whether the kind has a special value that means null.
        right: whether a column of such values is aligned to the right.
    """

    text: Callable[[Any, Style], str]
    json: Callable[[Any, Style], Any]
    schema: dict[str, Any]
    null: bool = False
    right: bool = False


_LSN_SCHEMA: Final = {"type": "string", "pattern": "^0x[0-9a-f]{1,8}/0x[0-9a-f]{1,8}$"}
_INSTANT_SCHEMA: Final = {"type": "string", "pattern": r"^\([0-9]{1,10},[0-9]{1,10}\)$"}
_INTEGER: Final = {"type": "integer"}
_STRING: Final = {"type": "string"}


def _or_dash(text: str | None) -> str:
    return "-" if text is None else text


KINDS: Final[dict[str, ValueKind]] = {
    "int": ValueKind(lambda v, _: str(v), lambda v, _: v, _INTEGER, right=True),
    "float": ValueKind(lambda v, _: f"{v:g}", lambda v, _: v, {"type": "number"}, right=True),
    "hex": ValueKind(lambda v, _: f"{v:#x}", lambda v, _: v, _INTEGER, right=True),
    "level": ValueKind(lambda v, _: f"{v:#x}", lambda v, _: v, _INTEGER, right=True),
    "bool": ValueKind(lambda v, _: "yes" if v else "no", lambda v, _: v, {"type": "boolean"}),
    "text": ValueKind(lambda v, _: printable(v), lambda v, _: v, _STRING),
    "bytes": ValueKind(
        lambda v, _: f"0x{v.hex()}", lambda v, _: v.hex(), {"type": "string", "pattern": "^([0-9a-f]{2})*$"}
    ),
    "key": ValueKind(lambda v, s: _bytes_text(v, s.key_format), lambda v, s: show(v, s.key_format), _STRING),
    "data": ValueKind(lambda v, s: _bytes_text(v, s.data_format), lambda v, s: show(v, s.data_format), _STRING),
    "lsn": ValueKind(lambda v, _: _or_dash(lsn_text(v)), lambda v, _: lsn_text(v), _LSN_SCHEMA, null=True),
    "instant": ValueKind(
        lambda v, _: _or_dash(instant_text(v)), lambda v, _: instant_text(v), _INSTANT_SCHEMA, null=True
    ),
    "vlsn": ValueKind(
        lambda v, _: "-" if v == NULL_VLSN else str(v),
        lambda v, _: None if v == NULL_VLSN else v,
        _INTEGER,
        null=True,
        right=True,
    ),
    "time": ValueKind(lambda v, s: time_text(v, s.tz), lambda v, s: time_text(v, s.tz), _STRING),
    "expiration": ValueKind(
        lambda v, _: _or_dash(expiration_text(v)), lambda v, _: expiration_text(v), _STRING, null=True
    ),
    "duration_ms": ValueKind(lambda v, _: f"{v / 1000:.3f} s", lambda v, _: v, _INTEGER, right=True),
    "size_bytes": ValueKind(lambda v, _: size_text(v), lambda v, _: v, _INTEGER, right=True),
    # Any JSON value; the application that wrote it defines its structure.
    "json": ValueKind(lambda v, _: _json_text(v), lambda v, _: v, {}),
    "record": ValueKind(_record_text, row_to_json, {"type": "object"}),
}

# Kinds whose values are JSON already. Most fields of streams, which have millions of rows, have these kinds.
AS_IT_IS: Final = frozenset(("int", "float", "hex", "level", "bool", "text", "duration_ms", "size_bytes"))


def _list_text(kind: str) -> Callable[[Any, Style], str]:
    return lambda value, style: ", ".join([to_text(kind, item, style) for item in value]) or "-"


# Converters of values other than None to text, by kind, including lists.
TEXTS: Final[dict[str, Callable[[Any, Style], str]]] = {
    **{name: kind.text for name, kind in KINDS.items()},
    **{name: _list_text(item) for name, item in LISTS.items()},
}


def field_schema(field: Field) -> dict[str, Any]:
    """JSON Schema of the value of a field."""
    kind = LISTS.get(field.kind, field.kind)
    value = object_schema(field.fields) if field.fields else dict(KINDS[kind].schema)
    if field.choices:
        value["enum"] = list(field.choices)
    # Some kinds have a special null value, such as NULL_LSN, which may also occur in lists.
    if KINDS[kind].null:
        value = _or_null(value)
    if field.kind in LISTS:
        value = {"type": "array", "items": value}
    if field.null:
        value = _or_null(value)
    return {"description": field.help, **value}


def record_schema(of: Shaped, *, with_rec: bool) -> dict[str, Any]:
    """JSON Schema of a record as an object.

    Arguments:
        of: the record's class.
        with_rec: whether the object begins with the key ``rec`` (lines of NDJSON).
    """
    shape = shape_of(of)
    found = object_schema(shape.fields)
    if with_rec:
        # ``rec`` comes first, as in the line itself.
        found["properties"] = {"rec": {"const": shape.rec}} | found["properties"]
        found["required"] = ["rec", *found["required"]]
    return {"description": shape.help, **found}


def object_schema(fields: Iterable[Field]) -> dict[str, Any]:
    """JSON Schema of an object with these fields. Readers must accept unknown keys, because keys are added
    over time.
    """
    listed = list(fields)
    return {
        "type": "object",
        "properties": {field.name: field_schema(field) for field in listed},
        "required": [field.name for field in listed if not field.optional],
    }


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    # Add null only once, even if both kind and field allow it.
    return schema if "anyOf" in schema else {"anyOf": [schema, {"type": "null"}]}


def check_fields(selected: Sequence[str] | None, shapes: Sequence[Shaped]) -> None:
    """Refuse names that are not fields of any record.

    Arguments:
        selected: the names of ``--fields``, or None.
        shapes: the possible shapes; a name must be in one of them.

    Raises:
        UsageError: a name is unknown; the message lists the known names.
    """
    known = list(dict.fromkeys(name for shape in shapes for name in shape_of(shape).names()))
    wrong = [name for name in selected or () if name not in known]
    if wrong:
        from engine.errors import UsageError

        raise UsageError(f"no field {', '.join(wrong)}", hint=f"--fields takes {','.join(known)}")


def pick_fields(row: Row, selected: Sequence[str] | None) -> Row:
    """The selected fields of a row in the selected order. Fields that the row lacks are left out."""
    if selected is None:
        return row
    by_name = {field[0]: field for field in row}
    return [by_name[name] for name in selected if name in by_name]


def column_names(shapes: Sequence[Shaped], selected: Sequence[str] | None) -> list[str]:
    """The columns of CSV and text: the selected fields, or the fields of all shapes, each once.

    If rows of several shapes are possible, the first column is ``rec``, the name of the shape.
    """
    if selected is not None:
        return list(selected)
    names = list(dict.fromkeys(name for shape in shapes for name in shape_of(shape).names()))
    return (["rec"] if len(shapes) > 1 else []) + names
