"""Names and kinds of the fields of records, defined once for all renderers.

A *shape* lists the fields of a record class in on-disk order, each with the name that users see and a kind that
determines how a renderer shows the value. Kinds:

==============  ================================================================================
kind            value
==============  ================================================================================
``int``         a number
``hex``         a number that is a set of flags
``bool``        True or False
``text``        a string
``bytes``       a byte array, or None
``lsn``         a 64-bit LSN; NULL shows as null
``vlsn``        a VLSN; NULL shows as null
``time``        milliseconds since 1970-01-01 UTC
``expiration``  positive: days since 1970; negative: hours since 1970; 0: never
``level``       a node's level with its tree bits
``ints``        a tuple of numbers
``lsns``        a tuple of LSNs
``offsets``     a tuple of byte offsets
``byteses``     a tuple of byte arrays
``record``      a record that has a shape of its own, or None
``records``     a tuple of such records
==============  ================================================================================
"""

from __future__ import annotations

from typing import Final, NamedTuple

KINDS: Final = frozenset(
    ("int", "hex", "bool", "text", "bytes", "lsn", "vlsn", "time", "expiration", "level", "ints", "lsns", "offsets",
     "byteses", "record", "records")
)  # fmt: skip


class RecordField(NamedTuple):
    """One field of a shape."""

    name: str
    kind: str


class FieldValue(NamedTuple):
    """One field of a record with its value, as passed to a renderer."""

    name: str
    kind: str
    value: object


Shape = tuple[RecordField, ...]


def shape(record: type[tuple[object, ...]], text: str) -> Shape:
    """The shape of a named tuple.

    Arguments:
        record: the class; its fields are in on-disk order.
        text: ``field:kind`` or ``field=shown_name:kind`` for each field, separated by blanks, in the same order.

    Raises:
        ValueError: the text does not match the class. Shapes are built on import, so this cannot go unnoticed.
    """
    names: tuple[str, ...] = getattr(record, "_fields", ())
    fields = []
    for name, item in zip(names, text.split(), strict=True):
        shown, kind = item.split(":")
        field, _, alias = shown.partition("=")
        if field != name or kind not in KINDS:
            raise ValueError(f"shape of {record.__name__}: {item!r} stands where field {name!r} should")
        fields.append(RecordField(alias or field, kind))
    return tuple(fields)
