"""What ``jetool journal`` prints of one journal."""

from __future__ import annotations

from typing import Final

from engine.contents.operations import may_skip, operation_name
from engine.journals.reading import FoundJournal
from jetool.commands.journal.group import UNNAMED
from jetool.output.shape import Field, Row, Shape, Style, to_text

JOURNAL: Final = Shape(
    "journal",
    "One journal.",
    (
        Field("id", "int", "its id"),
        Field("time", "time", "when it was committed; of one that the cleaner has moved, what the clock said",
              null=True),
        Field("op", "int", "code of the operation; null when the value is too short for one", null=True),
        Field("name", "text", "its name; null for one that is not known", null=True),
        Field("payload", "json", "what it says: JSON, text, a number; {\"hex\": ...} for what is not known"),
        Field("known", "bool", "operation and payload are known"),
        Field("padding", "int", "zero bytes after the payload"),
        Field("bytes", "int", "length of the value"),
        Field("skippable", "bool", "the product passes over it when it is told to; null when that is not known",
              null=True),
        Field("db", "text", "its database"),
        Field("txn", "int", "the transaction that wrote it; null when the cleaner has moved it", null=True),
        Field("lsn", "lsn", "where it stands in the log"),
        Field("vlsn", "vlsn", "its place in the replication stream"),
        Field("seen", "bool", "recovery sees it; false: it, or its Commit, stands after damage in the log"),
    ),
)  # fmt: skip


def journal_row(product: str | None, found: FoundJournal) -> Row:
    """A journal as a row."""
    code, payload = found.journal if found.journal is not None else (None, None)
    name = operation_name(product, code) if code is not None else None
    return JOURNAL.row(
        (
            found.id, found.time_ms, code, name,
            {"hex": found.value.hex()} if payload is None else payload.value,
            payload is not None and payload.known and name is not None, payload.padding if payload is not None else 0,
            len(found.value), may_skip(product, code) if code is not None else None, found.database, found.txn,
            found.lsn, found.vlsn, found.seen,
        )
    )  # fmt: skip


def journal_line(rec: str, row: Row, style: Style) -> str:  # noqa: ARG001 - the signature of TextLine
    """A journal on one line: id, time, operation, payload, and what is out of the ordinary."""
    by_name = {name: (kind, value) for name, kind, value in row}

    def text(name: str) -> str:
        return to_text(*by_name[name], style) if name in by_name else ""

    if set(by_name) != set(JOURNAL.names()):
        return "  ".join(text(name) for name in by_name)
    operation = f"{text('op')} {by_name['name'][1] or UNNAMED}"
    marks = [f"padding={text('padding')}"] if by_name["padding"][1] else []
    if not by_name["known"][1]:
        marks.append("not all is known")
    if not by_name["seen"][1]:
        marks.append("after damage: recovery does not see it")
    place = f"txn {text('txn')}  {text('lsn')}  VLSN {text('vlsn')}"
    return "  ".join([text("id"), text("time"), operation, text("payload"), *marks, place])
