"""Output records of the commands that read tables of a Derby database with an SQL catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

from engine.fields import ABSENT, Absent, Choices, Int, Json, Text, record

USER: Final = "user"
SYSTEM: Final = "system"


@record("table")
class SqlTableRow(NamedTuple):
    """A table of a Derby database."""

    name: Annotated[Text, "schema and name"]
    kind: Annotated[Text, "whose it is: system for tables of the catalogue", Choices((USER, SYSTEM))]
    container: Annotated[Int, "number of its container"]
    pages: Annotated[Int, "pages of the container; 0 when it has no file"]
    records: Annotated[Int | None, "rows, with --count"]
    columns: Annotated[Sequence[Text], "its columns in order, as in CREATE TABLE; without a type if it is not known"]


@record("row")
class SqlRowFields(NamedTuple):
    """A row of a table."""

    page: Annotated[Int, "page on which it begins"]
    record_id: Annotated[Int, "its id on the page"]
    values: Annotated[
        Json,
        "by column: numbers and truth values as such; decimals, dates, times and characters as text, bytes in hex",
    ]
    problems: Annotated[Json | Absent, "by column: why its value is shown in hex"] = ABSENT


@record("bad")
class LostSqlRows(NamedTuple):
    """Rows that cannot be read."""

    page: Annotated[Int, "page on which they begin"]
    record_id: Annotated[Int | None, "the row; null for all rows of the page"]
    problem: Annotated[Text, "why"]
