"""Shapes: the fields of an output record, declared once.

A shape serves the columns of tables and CSV, the names that ``--fields`` accepts, and the JSON Schema that ``jetool
schema`` prints. Commands declare the shapes of what they print; a test validates real output against them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from jetool.output import values
from jetool.output.values import Row


class Field(NamedTuple):
    """One field of a record.

    Attributes:
        name: the JSON key.
        kind: a kind of ``jetool.output.values``.
        help: what it says, with units.
        null: whether it can be null.
        optional: whether it can be left out.
        fields: the fields of a nested ``record`` or of each of ``records``; none where they differ by log version.
        choices: the only texts that occur, for kind ``text``.
    """

    name: str
    kind: str
    help: str
    null: bool = False
    optional: bool = False
    fields: tuple[Field, ...] = ()
    choices: tuple[str, ...] = ()

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the value."""
        kind = values.LISTS.get(self.kind, self.kind)
        value = object_schema(self.fields) if self.fields else dict(values.KINDS[kind].schema)
        if self.choices:
            value["enum"] = list(self.choices)
        # Some kinds have a value of their own for null, such as NULL_LSN: each item of a list may be it.
        if values.KINDS[kind].null:
            value = _or_null(value)
        if self.kind in values.LISTS:
            value = {"type": "array", "items": value}
        if self.null:
            value = _or_null(value)
        return {"description": self.help, **value}


class Shape(NamedTuple):
    """A record: its name, what it is, and its fields in the order of printing.

    Attributes:
        rec: value of the key ``rec`` in NDJSON.
        help: one sentence.
        fields: the fields. A field that is not here is not printed by anybody.
    """

    rec: str
    help: str
    fields: tuple[Field, ...]

    def row(self, record: Sequence[Any]) -> Row:
        """Values in the order of the fields, with their names and kinds."""
        return row_of(self.fields, record)

    def names(self) -> list[str]:
        """Names of the fields."""
        return [field.name for field in self.fields]

    def schema(self, *, with_rec: bool) -> dict[str, Any]:
        """JSON Schema of the record as an object.

        Arguments:
            with_rec: whether the key ``rec`` stands in front (lines of NDJSON).
        """
        found = object_schema(self.fields)
        if with_rec:
            # First, as in the line itself.
            found["properties"] = {"rec": {"const": self.rec}} | found["properties"]
            found["required"] = ["rec", *found["required"]]
        return {"description": self.help, **found}


def row_of(fields: Iterable[Field], record: Sequence[Any]) -> Row:
    """Values in the order of some fields, with their names and kinds; of a shape, or of a record nested in one."""
    return [(field.name, field.kind, value) for field, value in zip(fields, record, strict=True)]


def object_schema(fields: Iterable[Field]) -> dict[str, Any]:
    """JSON Schema of an object with these fields. Readers must expect further keys: keys are added over time."""
    listed = list(fields)
    return {
        "type": "object",
        "properties": {field.name: field.schema() for field in listed},
        "required": [field.name for field in listed if not field.optional],
    }


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    # Null is allowed once, also where kind and field both allow it.
    return schema if "anyOf" in schema else {"anyOf": [schema, {"type": "null"}]}
