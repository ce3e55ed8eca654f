"""The output record of one journal."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from engine.contents.operations import may_skip, operation_name
from engine.fields import Bool, Int, Json, Lsn, Row, Text, Time, Vlsn, record, shape_of
from engine.journals.reader import FoundJournal
from jetool.commands.journal.group import UNNAMED
from jetool.output.shape import Style, to_text


@record("journal")
class PrintedJournal(NamedTuple):
    """One journal."""

    id: Annotated[Int, "its id"]
    time: Annotated[Time | None, "commit time; for a journal that the cleaner has moved, the time of the clock journal"]
    op: Annotated[Int | None, "code of the operation; null when the value is too short for one"]
    name: Annotated[Text | None, "its name; null for one that is not known"]
    payload: Annotated[Json, 'what it says: JSON, text, a number; {"hex": ...} for what is not known']
    known: Annotated[Bool, "operation and payload are known"]
    padding: Annotated[Int, "zero bytes after the payload"]
    bytes: Annotated[Int, "length of the value"]
    skippable: Annotated[Bool | None, "the product passes over it when it is told to; null when that is not known"]
    db: Annotated[Text, "its database"]
    txn: Annotated[Int | None, "the transaction that wrote it; null when the cleaner has moved it"]
    lsn: Annotated[Lsn, "where it stands in the log"]
    vlsn: Annotated[Vlsn, "its place in the replication stream"]
    seen: Annotated[Bool, "recovery reads it; false: the journal or its Commit comes after damage in the log"]


def printed_journal(product: str | None, found: FoundJournal) -> PrintedJournal:
    """A journal as it is printed."""
    code, payload = found.journal if found.journal is not None else (None, None)
    name = operation_name(product, code) if code is not None else None
    return PrintedJournal(
        id=found.id,
        time=found.time_ms,
        op=code,
        name=name,
        payload={"hex": found.value.hex()} if payload is None else payload.value,
        known=payload is not None and payload.known and name is not None,
        padding=payload.padding if payload is not None else 0,
        bytes=len(found.value),
        skippable=may_skip(product, code) if code is not None else None,
        db=found.database,
        txn=found.txn,
        lsn=found.lsn,
        vlsn=found.vlsn,
        seen=found.seen,
    )


def journal_line(rec: str, row: Row, style: Style) -> str:  # noqa: ARG001 - the signature of TextLine
    """A journal on one line: id, time, operation, payload, and anything unusual."""
    by_name = {name: (kind, value) for name, kind, value in row}

    def text(name: str) -> str:
        return to_text(*by_name[name], style) if name in by_name else ""

    if set(by_name) != set(shape_of(PrintedJournal).names()):
        return "  ".join(text(name) for name in by_name)
    operation = f"{text('op')} {by_name['name'][1] or UNNAMED}"
    marks = [f"padding={text('padding')}"] if by_name["padding"][1] else []
    if not by_name["known"][1]:
        marks.append("not all is known")
    if not by_name["seen"][1]:
        marks.append("after damage: recovery does not see it")
    place = f"txn {text('txn')}  {text('lsn')}  VLSN {text('vlsn')}"
    return "  ".join([text("id"), text("time"), operation, text("payload"), *marks, place])
