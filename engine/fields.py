"""Results as records: a frozen class whose fields declare what they hold; all forms of output derive from it.

A result is a named tuple, built by keyword. The annotation of a field holds its kind and one clause of help with its
unit; headings, columns, JSON, NDJSON, CSV, JSON Schemas and the datasets of fleets are derived from it (``shape_of``).

    @record("file")
    class FileSpace(NamedTuple):
        \"\"\"One log file and its live bytes.\"\"\"

        file: Annotated[Int, "number of the file"]
        first_lsn: Annotated[Lsn | None, "its first entry; null when it has none"]
        live: Annotated[SizeBytes, "bytes of live entries"]
        databases: Annotated[Sequence[Text], "names of the databases that it holds records of"]
        why: Annotated[Text | Absent, "with --why: the reason why it is kept"] = ABSENT

``FileSpace(file=31, first_lsn=0x1f00000000, ...)`` has the row ``[("file", "int", 31), ("first_lsn", "lsn", ...)]`` and
so on.

====================  ==================================================================
annotation            meaning
====================  ==================================================================
a kind, ``Lsn``       a value of that kind; the kinds are below, and what they look like
                      is known to renderers alone
``Lsn | None``        null when it is not known or absent
``Lsn | Absent``      left out where it does not apply (``ABSENT``)
``Sequence[Lsn]``     a list
a record class        a nested record; ``Sequence`` of it: nested records
``Like(Other)``       in the place of the help: help and choices of the field of the same name in
                      ``Other``
``Choices(...)``      after the help: the only texts that occur
``Named("from")``     after the help: a name that Python keeps for itself
====================  ==================================================================

The kinds ``Record`` and ``Records`` stand for nested records whose fields differ from one to the next, such as entries
of the log.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)


class Kind(NamedTuple):
    """The type of a value; renderers choose its presentation by it."""

    name: str


class Choices(NamedTuple):
    """The only texts that a field may hold."""

    texts: tuple[str, ...]


class Like(NamedTuple):
    """Takes help and choices from the field of the same name in another record class."""

    record: type


class FieldName(NamedTuple):
    """The name of a field in output, where Python does not allow it as an identifier."""

    name: str


class Absent(enum.Enum):
    """The type of ``ABSENT``."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT

Int: TypeAlias = Annotated[int, Kind("int")]
Float: TypeAlias = Annotated[float, Kind("float")]
Hex: TypeAlias = Annotated[int, Kind("hex")]
# A level of a tree, with the flag bits of the stored level.
Level: TypeAlias = Annotated[int, Kind("level")]
Bool: TypeAlias = Annotated[bool, Kind("bool")]
Text: TypeAlias = Annotated[str, Kind("text")]
Bytes: TypeAlias = Annotated[bytes, Kind("bytes")]
Key: TypeAlias = Annotated[bytes, Kind("key")]
Data: TypeAlias = Annotated[bytes, Kind("data")]
Lsn: TypeAlias = Annotated[int, Kind("lsn")]
# A position in a Derby log.
Instant: TypeAlias = Annotated[int, Kind("instant")]
Vlsn: TypeAlias = Annotated[int, Kind("vlsn")]
# Milliseconds since 1970-01-01 UTC.
Time: TypeAlias = Annotated[int, Kind("time")]
# Days since 1970, or hours if negative; 0: never.
Expiration: TypeAlias = Annotated[int, Kind("expiration")]
DurationMs: TypeAlias = Annotated[int, Kind("duration_ms")]
SizeBytes: TypeAlias = Annotated[int, Kind("size_bytes")]
Json: TypeAlias = Annotated[Any, Kind("json")]
Record: TypeAlias = Annotated[Any, Kind("record")]
Records: TypeAlias = Annotated[Sequence[Any], Kind("records")]

# Kinds of lists, each with the kind of its items.
LISTS: Final = {
    "ints": "int",
    "offsets": "hex",
    "texts": "text",
    "byteses": "bytes",
    "lsns": "lsn",
    "vlsns": "vlsn",
    "records": "record",
}
_LIST_OF: Final = {item: name for name, item in LISTS.items()}

# (name, kind, value) in the order of printing. The value's type follows from the kind.
Row = Sequence[tuple[str, str, Any]]


class Field(NamedTuple):
    """One field of a record.

    Attributes:
        name: the JSON key.
        kind: name of a kind, or of a kind of lists.
        help: the meaning of the field, with units.
        null: whether it can be null.
        optional: whether it can be left out.
        fields: the fields of a nested ``record`` or of each of ``records``; empty where they vary.
        choices: the only texts that occur, for kind ``text``.
    """

    name: str
    kind: str
    help: str
    null: bool = False
    optional: bool = False
    fields: tuple[Field, ...] = ()
    choices: tuple[str, ...] = ()


class Shape(NamedTuple):
    """Describes the output of a record class.

    Attributes:
        rec: value of the key ``rec`` in NDJSON; empty for records that occur only inside others.
        help: one sentence.
        fields: the fields, in output order.
    """

    rec: str
    help: str
    fields: tuple[Field, ...]

    def names(self) -> list[str]:
        """Names of the fields."""
        return [field.name for field in self.fields]


# A record class, or the shape that a command derived from one.
Shaped = type | Shape

_REC: Final = "__rec__"
_Class = TypeVar("_Class", bound=type)


def record(rec: str = "") -> Callable[[_Class], _Class]:
    """Class decorator: make a named tuple a record that can be printed.

    Arguments:
        rec: name of the record in NDJSON; omit it for records that occur only inside other records.
    """

    def declare(cls: _Class) -> _Class:
        setattr(cls, _REC, rec)
        return cls

    return declare


def is_record(value: object) -> bool:
    """Whether a value is of a class that ``record`` declared."""
    return hasattr(type(value), _REC)


def shape_of(of: Shaped) -> Shape:
    """The shape of a record class; a shape is returned unchanged.

    Raises:
        TypeError: an annotation is not one of those listed at the head of this module.
    """
    return of if isinstance(of, Shape) else _declared(of)


def shape_of_columns(rec: str, about: str, columns: Sequence[tuple[str, str]]) -> Shape:
    """The shape of rows whose columns were read from data, such as a table of SQL; every value may be null.

    Arguments:
        rec, about: as in ``Shape``.
        columns: name and kind of each.
    """
    return Shape(rec, about, tuple(Field(name=name, kind=kind, help="", null=True) for name, kind in columns))


def row_of(value: Any) -> Row:
    """A record as names, kinds and values, without fields that are ``ABSENT``."""
    columns = zip(_columns(cast(Hashable, type(value))), value, strict=True)
    return [(name, kind, one) for (name, kind), one in columns if one is not ABSENT]


def as_row(value: Any) -> Row:
    """A record as a row; a row is returned unchanged."""
    return row_of(value) if is_record(value) else cast(Row, value)


def named_row(value: Any) -> tuple[str, Row]:
    """A record as the name of its shape and a row."""
    return getattr(value, _REC), row_of(value)


@cache
def _declared(cls: Any) -> Shape:
    about = " ".join((cls.__doc__ or "").partition("\n\n")[0].split())
    hints = get_type_hints(cls, include_extras=True)
    names: tuple[str, ...] = getattr(cls, "_fields", ())
    return Shape(getattr(cls, _REC), about, tuple(_field(cls, name, hints[name]) for name in names))


@cache
def _columns(cls: Any) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, field.kind) for field in _declared(cls).fields)


def _field(cls: type, name: str, hint: Any) -> Field:
    if get_origin(hint) is not Annotated:
        raise TypeError(f"{cls.__name__}.{name} has no help")
    kind, null, optional, fields = _type(cls, name, hint)
    choices: tuple[str, ...] = ()
    about, shown = None, name
    for extra in hint.__metadata__:
        if isinstance(extra, str):
            about = extra
        elif isinstance(extra, Choices):
            choices = extra.texts
        elif isinstance(extra, FieldName):
            shown = extra.name
        elif isinstance(extra, Like):
            other = _field(extra.record, name, get_type_hints(extra.record, include_extras=True)[name])
            about, choices = other.help, other.choices
    if about is None:
        raise TypeError(f"{cls.__name__}.{name} has no help")
    return Field(name=shown, kind=kind, help=about, null=null, optional=optional, fields=fields, choices=choices)


def _type(cls: type, name: str, hint: Any) -> tuple[str, bool, bool, tuple[Field, ...]]:
    """Kind, whether it can be null, whether it is optional, and nested fields."""
    null = optional = False
    fields: tuple[Field, ...] = ()
    kind = _kind(hint)
    plain = hint.__origin__ if get_origin(hint) is Annotated else hint
    if kind is None and get_origin(plain) in (Union, types.UnionType):
        parts = get_args(plain)
        null, optional = type(None) in parts, Absent in parts
        (hint,) = (part for part in parts if part not in (type(None), Absent))
        kind = _kind(hint)
        plain = hint.__origin__ if get_origin(hint) is Annotated else hint
    if kind is None and isinstance(plain, type) and hasattr(plain, _REC):
        kind, fields = "record", shape_of(plain).fields
    elif kind is None and isinstance(get_origin(plain), type) and issubclass(get_origin(plain), Sequence):
        item_kind, _, _, fields = _type(cls, name, get_args(plain)[0])
        kind = _LIST_OF.get(item_kind)
    if kind is None:
        raise TypeError(f"{cls.__name__}.{name} has no kind: {hint}")
    return kind, null, optional, fields


def _kind(hint: Any) -> str | None:
    if get_origin(hint) is Annotated:
        for extra in hint.__metadata__:
            if isinstance(extra, Kind):
                return extra.name
    return None
