"""Output records for comparing Derby's recovery and textbook ARIES on each record of a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from engine.derby.format.operations import registry
from engine.derby.textbook import TextbookComparison
from engine.fields import Bool, Choices, Instant, Int, Text, record


@record()
class ComparedRecord(NamedTuple):
    """A log record, with the actions of Derby and of textbook ARIES."""

    instant: Annotated[Instant, "the record"]
    operation: Annotated[Text, "what was done"]
    transaction: Annotated[Int | None, "its transaction"]
    container: Annotated[Int | None, "container that it changes"]
    page: Annotated[Int | None, "page that it changes"]
    version: Annotated[Int | None, "version of the page in front of it"]
    derby: Annotated[Text, "what recovery does with it, as in dump-log --explain"]
    undone: Annotated[Bool, "recovery compensates it afterwards"]
    textbook: Annotated[Text, "what textbook ARIES would do with it"]
    textbook_undo: Annotated[Text | None, "undone, or jumped by a CLR's UndoNxtLSN; null when no loser's"]
    page_lsn: Annotated[Instant, "LSN that the page on disk would carry"]
    why: Annotated[Text, "why textbook ARIES does so"]


@record()
class VerdictCount(NamedTuple):
    """The number of records with a pair of actions."""

    derby: Annotated[Text, "what recovery does"]
    textbook: Annotated[Text, "what textbook ARIES would do"]
    records: Annotated[Int, "how many records"]


@record("explained")
class TextbookReport(NamedTuple):
    """Recovery of a Derby database compared with textbook ARIES, record by record."""

    environment: Annotated[Text, "the directory"]
    store: Annotated[Text, "what it is", Choices(("derby",))]
    counts: Annotated[Sequence[VerdictCount], "how often the two agree and differ"]
    records: Annotated[Sequence[ComparedRecord], "every record from the undo low water mark on"]


def textbook_report(root: str, found: list[TextbookComparison]) -> TextbookReport:
    """The report of both; records that Derby does not read are only counted."""
    counts = Counter((one.derby.action, one.textbook) for one in found)
    read = [one for one in found if one.derby.action != "unread"]
    return TextbookReport(
        environment=root,
        store="derby",
        counts=[
            VerdictCount(derby=derby, textbook=textbook, records=count)
            for (derby, textbook), count in sorted(counts.items())
        ],
        records=[_compared(one) for one in read],
    )


def _compared(one: TextbookComparison) -> ComparedRecord:
    found = one.derby.record
    operation = found.operation
    return ComparedRecord(
        instant=found.instant,
        operation=registry.type_of(operation).name,
        transaction=found.transaction,
        container=getattr(operation, "container", None),
        page=getattr(operation, "page", None),
        version=getattr(operation, "version", None),
        derby=one.derby.action,
        undone=one.derby.undone,
        textbook=one.textbook,
        textbook_undo=one.undo,
        page_lsn=one.page_lsn,
        why=one.reason,
    )
