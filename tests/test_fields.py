"""Record classes: what their annotations say, and their rows."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import pytest

from engine.fields import (
    ABSENT,
    Absent,
    Choices,
    Field,
    FieldName,
    Int,
    Like,
    Lsn,
    Records,
    Text,
    as_row,
    is_record,
    named_row,
    record,
    row_of,
    shape_of,
)

STATES = ("live", "gone")


@record()
class Part(NamedTuple):
    """A part."""

    lsn: Annotated[Lsn, "where it is"]


@record("whole")
class Whole(NamedTuple):
    """All of it, in one
    sentence.

    More that no schema has.
    """

    name: Annotated[Text, "its name"]
    state: Annotated[Text | None, "how it is", Choices(STATES)]
    from_: Annotated[Lsn, "where it begins", FieldName("from")]
    sizes: Annotated[Sequence[Int], "bytes of each"]
    part: Annotated[Part | None, "the first part"]
    parts: Annotated[Sequence[Part] | Absent, "all parts"]
    free: Annotated[Records, "records of any kind"]
    more: Annotated[Text | Absent | None, "what else there is"] = ABSENT


@record("copy")
class Copy(NamedTuple):
    """A copy."""

    name: Annotated[Text, Like(Whole)]
    state: Annotated[Text, Like(Whole)]


class Plain(NamedTuple):
    """A named tuple that nobody declared."""

    lsn: int


WHOLE = Whole(name="a", state=None, from_=1, sizes=(1, 2), part=None, parts=ABSENT, free=())


def test_a_class_says_its_fields() -> None:
    shape = shape_of(Whole)
    assert (shape.rec, shape.help) == ("whole", "All of it, in one sentence.")
    part = shape_of(Part).fields
    assert shape.fields == (
        Field("name", "text", "its name"),
        Field("state", "text", "how it is", null=True, choices=STATES),
        Field("from", "lsn", "where it begins"),
        Field("sizes", "ints", "bytes of each"),
        Field("part", "record", "the first part", null=True, fields=part),
        Field("parts", "records", "all parts", optional=True, fields=part),
        Field("free", "records", "records of any kind"),
        Field("more", "text", "what else there is", null=True, optional=True),
    )
    assert shape_of(shape) is shape


def test_help_of_another_class() -> None:
    name, state = shape_of(Copy).fields
    assert name == shape_of(Whole).fields[0]
    # Whether it can be null is for the class itself to say.
    assert state == shape_of(Whole).fields[1]._replace(null=False)


def test_a_row_has_what_is_there() -> None:
    row = row_of(WHOLE._replace(more=None))
    assert [name for name, _, _ in row] == ["name", "state", "from", "sizes", "part", "free", "more"]
    assert row[2] == ("from", "lsn", 1)
    assert [name for name, _, _ in row_of(WHOLE._replace(parts=[Part(lsn=5)]))] == [
        "name", "state", "from", "sizes", "part", "parts", "free",
    ]  # fmt: skip


def test_rows_of_records_and_of_rows() -> None:
    assert named_row(Part(lsn=7)) == ("", [("lsn", "lsn", 7)])
    assert as_row(Part(lsn=7)) == [("lsn", "lsn", 7)]
    row = [("a", "int", 1)]
    assert as_row(row) is row
    assert is_record(Part(lsn=7))
    assert not is_record(Plain(lsn=7))
    assert not is_record(row)


def test_absent_stays_one_object() -> None:
    """Worker processes send records, and what is left out is known by identity."""
    assert pickle.loads(pickle.dumps(WHOLE)).more is ABSENT


def test_wrong_annotations() -> None:
    @record("a")
    class NoHelp(NamedTuple):
        lsn: Lsn

    @record("b")
    class NoKind(NamedTuple):
        lsn: Annotated[int, "where"]

    @record("c")
    class NoList(NamedTuple):
        flags: Annotated[Sequence[bool], "which"]

    @record("d")
    class Bare(NamedTuple):
        lsn: int

    for cls in (NoHelp, NoKind, NoList, Bare):
        with pytest.raises(TypeError, match=cls.__name__):
            shape_of(cls)
