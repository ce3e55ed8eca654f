"""What Derby's recovery, and what textbook ARIES, would do with each record of a log."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from engine.derby.format.operations import registry
from engine.derby.textbook import TextbookComparison
from jetool.output.shape import Field, Row, Shape, row_of

_RECORD_FIELDS: Final = (
    Field("instant", "instant", "the record"),
    Field("operation", "text", "what was done"),
    Field("transaction", "int", "its transaction", null=True),
    Field("container", "int", "container that it changes", null=True),
    Field("page", "int", "page that it changes", null=True),
    Field("version", "int", "version of the page in front of it", null=True),
    Field("derby", "text", "what recovery does with it, as dump-log --explain says"),
    Field("undone", "bool", "recovery compensates it afterwards"),
    Field("textbook", "text", "what textbook ARIES would do with it"),
    Field("textbook_undo", "text", "undone, or jumped by a CLR's UndoNxtLSN; null when no loser's", null=True),
    Field("page_lsn", "instant", "LSN that the page on disk would carry"),
    Field("why", "text", "why textbook ARIES does so"),
)
_COUNT_FIELDS: Final = (
    Field("derby", "text", "what recovery does"),
    Field("textbook", "text", "what textbook ARIES would do"),
    Field("records", "int", "how many records"),
)
EXPLAINED: Final = Shape(
    "explained",
    "Recovery of a Derby database, record by record, beside textbook ARIES.",
    (
        Field("environment", "text", "the directory"),
        Field("store", "text", "what it is", choices=("derby",)),
        Field("counts", "records", "how often the two agree and differ", fields=_COUNT_FIELDS),
        Field("records", "records", "every record from the undo low water mark on", fields=_RECORD_FIELDS),
    ),
)


def explained_row(root: str, found: list[TextbookComparison]) -> Row:
    """Both verdicts as a row of the shape EXPLAINED; records that neither of them reads are counted only."""
    counts = Counter((one.derby.action, one.textbook) for one in found)
    read = [one for one in found if one.derby.action != "unread"]
    return EXPLAINED.row(
        (
            root,
            "derby",
            [row_of(_COUNT_FIELDS, (*pair, count)) for pair, count in sorted(counts.items())],
            [row_of(_RECORD_FIELDS, _record(one)) for one in read],
        )
    )


def _record(one: TextbookComparison) -> tuple[Any, ...]:
    record = one.derby.record
    operation = record.operation
    place = (getattr(operation, name, None) for name in ("container", "page", "version"))
    head = record.instant, registry.type_of(operation).name, record.transaction, *place
    return *head, one.derby.action, one.derby.undone, one.textbook, one.undo, one.page_lsn, one.reason
