"""Transactions beside the last checkpoint and the crash: a drawing for terminals, a row for JSON.

::

                 u            r^           e  transaction  like
    |------------:-------|    ::           :          193     1  committed
                 |------------::------|    :          194     2  committed

``u`` and ``r`` are the checkpoint's undoLWM and redoLWM, ``^`` its record, ``e`` the end of the log. Each period is
equally wide, however many bytes it has; inside one, columns are bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.derby.log import DerbyLogFiles
from engine.derby.timeline import PERIODS, A, Scale, Timeline, TimelineEntry
from engine.errors import plural
from jetool.derby.txns import FATES
from jetool.output.shape import Field, Row, Shape, instant_text, row_of

_ENTRY_FIELDS: Final = (
    Field("transaction", "int", "its number"),
    Field("like", "int", "the transaction of the design document's diagram that it is like, 1 to 5"),
    Field("outcome", "text", "what became of it", choices=FATES),
    Field("internal", "bool", "a structure change or a checkpoint; rolled back before all others"),
    Field("takes_checkpoint", "bool", "it is the transaction of the checkpoint"),
    Field("first", "instant", "its begin record; null when that is not in the log any more"),
    Field("last", "instant", "its last record"),
    Field("begins_in", "text", "period that it begins in: A before undo_lwm, B before redo_lwm, C", choices=PERIODS),
    Field("ends_in", "text", "period that it ends in; null when it does not", null=True, choices=PERIODS),
    Field("recovery", "text", "what recovery makes of it"),
)
TIMELINE: Final = Shape(
    "timeline",
    "Transactions of a Derby database beside its last checkpoint and the end of its log.",
    (
        Field("environment", "text", "the directory"),
        Field("store", "text", "what it is", choices=("derby",)),
        Field("undo_lwm", "instant", "undo low water mark: period B begins, recovery reads from here"),
        Field("redo_lwm", "instant", "redo low water mark: period C begins, recovery redoes from here"),
        Field("checkpoint", "instant", "record of the last checkpoint"),
        Field("end_of_log", "instant", "where the log ends: the crash"),
        Field("not_read", "int", "transactions that ended before the undo low water mark"),
        Field("transactions", "records", "all others, in the order of their begins", fields=_ENTRY_FIELDS),
    ),
)
_LABEL_WIDTH: Final = 40
_FEWEST_COLUMNS: Final = 24


def timeline_row(root: str, found: Timeline) -> Row:
    """A timeline as a row of the shape TIMELINE."""
    entries = [
        row_of(
            _ENTRY_FIELDS,
            (
                one.fate.number,
                one.like,
                one.fate.outcome,
                one.fate.internal,
                one.checkpoint,
                one.fate.first,
                one.fate.last,
                one.begins,
                one.ends,
                one.recovery,
            ),
        )
        for one in found.entries
    ]
    marks = found.undo_lwm, found.redo_lwm, found.checkpoint, found.end
    return TIMELINE.row((root, "derby", *marks, found.not_read, entries))


def drawing(log: DerbyLogFiles, found: Timeline, width: int) -> Iterator[str]:
    """The lines of the drawing, at most ``width`` columns wide (80 at least)."""
    first = min((one.fate.first for one in found.entries if one.begins == A and one.fate.first), default=found.undo_lwm)
    columns = max(width - _LABEL_WIDTH, _FEWEST_COLUMNS)
    scale = Scale(log, [first, found.undo_lwm, found.redo_lwm, found.end], columns)
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


def _bar(scale: Scale, one: TimelineEntry, marks: dict[int, str], columns: int) -> str:
    """A transaction as a bar: ``<`` begun before the log that is left, ``>`` never ended."""
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
