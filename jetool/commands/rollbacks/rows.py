"""Rollback periods as nested rows and as a timeline.

The timeline has one line per rollback entry and per matchpoint, in log order; bars show the open periods at each line::

    LSN        TIME                      EVENT
    0x0/0x64   -                         +- matchpoint, VLSN 12
    0x0/0x190  2026-11-21T14:01:01.250Z  +- RollbackStart: 3 records of 1 transaction
    0x0/0x1f4  2026-11-21T14:01:01.260Z  RollbackEnd of 0x0/0x190
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from engine.errors import plural
from engine.fields import ABSENT, Absent, Bool, Int, Key, Lsn, Records, Text, Vlsn, record
from engine.format.entry.rollback import RollbackStart
from engine.format.lsn import NULL_LSN, format_lsn
from engine.inspect.rollback_report import RollbackReport, RolledBackLN, matchpoint_vlsn
from engine.recovery.rollback_tracker import RollbackPeriod
from jetool.commands.diff.stream_rows import RejoinPrediction
from jetool.output.shape import Style, to_text
from jetool.output.text import document, fold


@record()
class RolledBackRecord(NamedTuple):
    """A record that a period rolled back."""

    lsn: Annotated[Lsn, "where it is"]
    txn: Annotated[Int, "its transaction"]
    db: Annotated[Int, "id of its database"]
    key: Annotated[Key, "its key"]
    invisible: Annotated[Bool, "whether it is marked invisible already"]


@record()
class NestedPeriod(NamedTuple):
    """A rollback period with the periods nested in it."""

    matchpoint_lsn: Annotated[Lsn, "the last entry that was kept"]
    matchpoint_vlsn: Annotated[Vlsn, "its VLSN"]
    rollback_start_lsn: Annotated[Lsn, "the RollbackStart"]
    rollback_end_lsn: Annotated[Lsn, "the RollbackEnd; null for a period that is open"]
    parent: Annotated[Lsn, "RollbackStart of the period around it; null for none"]
    # The elements have this class too, but a shape cannot refer to itself.
    children: Annotated[Records, "periods in it, latest first, with the same fields"]
    depth: Annotated[Int, "0 for a top-level period"]
    ln_count: Annotated[Int, "records that it rolled back, without records of nested periods"]
    txns: Annotated[Sequence[Int], "transactions that were rolled back"]
    complete: Annotated[Bool, "whether there is a RollbackEnd"]
    before_checkpoint: Annotated[Bool, "the last checkpoint has made its effects persistent"]
    records: Annotated[Sequence[RolledBackRecord] | Absent, "with --keys: the records"] = ABSENT


@record("rollbacks")
class Rollbacks(NamedTuple):
    """The rollback periods of a log."""

    periods: Annotated[Sequence[NestedPeriod], "top-level periods, latest first"]
    refused: Annotated[Text | None, "why recovery refuses the log; null when it does not"]
    prediction: Annotated[RejoinPrediction | Absent, "with --against: what the node would undo to rejoin"] = ABSENT


class _Event(NamedTuple):
    lsn: int
    order: int
    text: str
    opens: bool
    closes: bool


def nested_periods(
    report: RollbackReport, periods: list[RollbackPeriod], *, keys: bool, parent: int = NULL_LSN, depth: int = 0
) -> list[NestedPeriod]:
    """Periods with nested periods, latest first."""
    return [_nested(report, period, keys, parent, depth) for period in periods]


def _nested(report: RollbackReport, period: RollbackPeriod, keys: bool, parent: int, depth: int) -> NestedPeriod:
    lns = report.lns.get(period.start_lsn, [])
    return NestedPeriod(
        matchpoint_lsn=period.matchpoint_lsn,
        matchpoint_vlsn=matchpoint_vlsn(report, period),
        rollback_start_lsn=period.start_lsn,
        rollback_end_lsn=period.end_lsn,
        parent=parent,
        children=nested_periods(report, period.children, keys=keys, parent=period.start_lsn, depth=depth + 1),
        depth=depth,
        ln_count=len(lns),
        txns=sorted(period.active_txn_ids or ()),
        complete=not period.is_open,
        before_checkpoint=period.before_checkpoint,
        records=[_rolled_back(one) for one in lns] if keys else ABSENT,
    )


def _rolled_back(one: RolledBackLN) -> RolledBackRecord:
    return RolledBackRecord(lsn=one.lsn, txn=one.txn_id, db=one.db_id, key=one.key, invisible=one.invisible)


def timeline(report: RollbackReport, periods: list[RollbackPeriod], style: Style, *, txns: bool, keys: bool) -> str:
    """The periods as lines in log order; if rollbacks contradict each other, only their entries."""
    if report.refused:
        return _entries(report, style)
    if not periods:
        return "no rollback periods in the log"
    events = sorted(
        event for top in periods for period in top.walk() for event in _events(report, period, style, txns, keys)
    )
    lines, depth = [], 0
    width = max(len(format_lsn(event.lsn)) for event in events)
    for event in events:
        # A RollbackStart has the depth of its matchpoint, so its bar ends before this line.
        depth -= event.closes
        bar = "| " * depth + ("+- " if event.opens or event.closes else "")
        # The time of a matchpoint is the time of a Commit, not of the rollback.
        time = report.times.get(event.lsn) if not event.opens else None
        place = f"{format_lsn(event.lsn):<{width}}  {to_text('time', time, style):<24}  {bar}"
        lines.append(fold(f"{place}{event.text}", style.width, len(place)))
        depth += event.opens
    return "\n".join([f"{'LSN':<{width}}  {'TIME':<24}  EVENT", *lines])


def _entries(report: RollbackReport, style: Style) -> str:
    lines = [f"{'LSN':<20}  {'TIME':<24}  EVENT"]
    for lsn, entry in report.rollbacks:
        time = to_text("time", entry.time, style)
        if isinstance(entry, RollbackStart):
            event = f"RollbackStart, matchpoint {format_lsn(entry.matchpoint_lsn)}, VLSN {entry.matchpoint_vlsn}"
        else:
            event = f"RollbackEnd of {format_lsn(entry.rollback_start_lsn)}"
        lines.append(f"{format_lsn(lsn):<20}  {time:<24}  {event}")
    return "\n".join([*lines, f"no periods: {report.refused}"])


def prediction_text(found: RejoinPrediction, style: Style) -> str:
    """A prediction as aligned lines under a heading."""
    return document([("rejoining", "record", found)], style).decode("utf-8", "surrogateescape").rstrip("\n")


def _events(report: RollbackReport, period: RollbackPeriod, style: Style, txns: bool, keys: bool) -> list[_Event]:
    lns = report.lns.get(period.start_lsn, [])
    ids = sorted(period.active_txn_ids or ())
    start = f"RollbackStart: {plural(len(lns), 'record')} of {plural(len(ids), 'transaction')}"
    if txns:
        start += f" ({', '.join(map(str, ids))})"
    # Recovery finishes only top-level periods; a nested one was rolled back together with the period around it.
    if period.is_open and period in report.periods:
        start += "; open: there is no RollbackEnd, the next recovery finishes it"
    elif period.is_open:
        start += "; no RollbackEnd, the period around it took it along"
    elif period.before_checkpoint:
        start += "; before the checkpoint"
    vlsn = to_text("vlsn", matchpoint_vlsn(report, period), style)
    # If periods share a matchpoint, the one that ends last is the outer one.
    events = [
        _Event(period.matchpoint_lsn, -period.start_lsn, f"matchpoint, VLSN {vlsn}", True, False),
        _Event(period.start_lsn, 0, start, False, True),
    ]
    if not period.is_open:
        events.append(_Event(period.end_lsn, 0, f"RollbackEnd of {format_lsn(period.start_lsn)}", False, False))
    if keys:
        for rolled in lns:
            key = to_text("key", rolled.key, style)
            mark = "" if rolled.invisible else ", not yet invisible"
            events.append(_Event(rolled.lsn, 0, f"txn {rolled.txn_id} db {rolled.db_id} key {key}{mark}", False, False))
    return events
