"""A timeline of transactions, the last checkpoint and the crash: a drawing for terminals, rows for JSON.

::

                 u            r^           e  transaction  like
    |------------:-------|    ::           :          193     1  committed
                 |------------::------|    :          194     2  committed

``u`` and ``r`` are the checkpoint's undoLWM and redoLWM, ``^`` its record, ``e`` the end of the log. All periods have
the same width, whatever their bytes; inside a period the scale is linear in bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, NamedTuple

from engine.derby.log import DerbyLogFiles
from engine.derby.timeline import PERIODS, A, Timeline, TimelineEntry, TimelineScale
from engine.errors import plural
from engine.fields import Bool, Choices, Instant, Int, Text, record
from jetool.commands.derby_txns import FATES
from jetool.output.shape import instant_text


@record()
class TimelineTransaction(NamedTuple):
    """A transaction of the timeline."""

    transaction: Annotated[Int, "its number"]
    like: Annotated[Int, "the transaction of the design document's diagram that it is like, 1 to 5"]
    outcome: Annotated[Text, "what became of it", Choices(FATES)]
    internal: Annotated[Bool, "a structure change or a checkpoint; rolled back before all others"]
    takes_checkpoint: Annotated[Bool, "it is the transaction of the checkpoint"]
    first: Annotated[Instant, "its begin record; null when that is not in the log any more"]
    last: Annotated[Instant, "its last record"]
    begins_in: Annotated[Text, "period that it begins in: A before undo_lwm, B before redo_lwm, C", Choices(PERIODS)]
    ends_in: Annotated[Text | None, "period that it ends in; null when it does not", Choices(PERIODS)]
    recovery: Annotated[Text, "what recovery makes of it"]


@record("timeline")
class TimelineReport(NamedTuple):
    """The timeline of a Derby database: transactions, the last checkpoint and the end of the log."""

    environment: Annotated[Text, "the directory"]
    store: Annotated[Text, "what it is", Choices(("derby",))]
    undo_lwm: Annotated[Instant, "undo low water mark: period B begins, recovery reads from here"]
    redo_lwm: Annotated[Instant, "redo low water mark: period C begins, recovery redoes from here"]
    checkpoint: Annotated[Instant, "record of the last checkpoint"]
    end_of_log: Annotated[Instant, "where the log ends: the crash"]
    not_read: Annotated[Int, "transactions that ended before the undo low water mark"]
    transactions: Annotated[Sequence[TimelineTransaction], "all others, in the order of their begins"]


_LABEL_WIDTH: Final = 40
_FEWEST_COLUMNS: Final = 24


def timeline_report(root: str, found: Timeline) -> TimelineReport:
    """A timeline as a report."""
    entries = [
        TimelineTransaction(
            transaction=one.fate.number,
            like=one.like,
            outcome=one.fate.outcome,
            internal=one.fate.internal,
            takes_checkpoint=one.checkpoint,
            first=one.fate.first,
            last=one.fate.last,
            begins_in=one.begins,
            ends_in=one.ends,
            recovery=one.recovery,
        )
        for one in found.entries
    ]
    return TimelineReport(
        environment=root,
        store="derby",
        undo_lwm=found.undo_lwm,
        redo_lwm=found.redo_lwm,
        checkpoint=found.checkpoint,
        end_of_log=found.end,
        not_read=found.not_read,
        transactions=entries,
    )


def drawing(log: DerbyLogFiles, found: Timeline, width: int) -> Iterator[str]:
    """The lines of the drawing, at most ``width`` columns wide (80 at least)."""
    first = min((one.fate.first for one in found.entries if one.begins == A and one.fate.first), default=found.undo_lwm)
    columns = max(width - _LABEL_WIDTH, _FEWEST_COLUMNS)
    scale = TimelineScale(log, [first, found.undo_lwm, found.redo_lwm, found.end], columns)
    marks = {scale.column(found.end): "e", scale.column(found.redo_lwm): "r", scale.column(found.undo_lwm): "u"}
    if found.checkpoint:
        marks[scale.column(found.checkpoint)] = "^"
    for sign, at, what in (
        ("u", found.undo_lwm, "undoLWM: recovery reads from here, period A ends"),
        ("r", found.redo_lwm, "redoLWM: redo starts here, period B ends"),
        ("^", found.checkpoint, "the record of the last checkpoint"),
        ("e", found.end, "the end of the log: the crash"),
    ):
        yield f"{sign}  {instant_text(at) or 'none':<16}  {what}"
    yield ""
    yield "".join(marks.get(column, " ") for column in range(columns)) + "  transaction  like"
    for one in found.entries:
        yield f"{_bar(scale, one, marks, columns)}  {one.fate.number:>11}  {one.like:>4}  {_outcome(one)}"
    if found.not_read:
        yield ""
        yield f"{plural(found.not_read, 'transaction')} ended in front of undoLWM: not read"


def _bar(scale: TimelineScale, one: TimelineEntry, marks: dict[int, str], columns: int) -> str:
    """A transaction as a bar: ``<`` means begun before the remaining log, ``>`` means never ended."""
    left = scale.column(one.fate.first) if one.fate.first else 0
    right = scale.column(one.fate.last) if one.ends is not None else columns - 1
    line = [":" if column in marks else " " for column in range(columns)]
    for column in range(left, right + 1):
        if line[column] == " ":
            line[column] = "-"
    line[left] = "|" if one.fate.first else "<"
    line[right] = "|" if one.ends is not None else ">"
    return "".join(line)


def _outcome(one: TimelineEntry) -> str:
    return "checkpoint" if one.checkpoint else f"{one.fate.outcome}{', internal' if one.fate.internal else ''}"
