"""``jetool journal stats``: the space used by journals."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import click

from engine.fields import Float, Int, Like, SizeBytes, Text, Time, named_row, record
from engine.journals.usage import BY_HOUR, BY_OPERATION, GROUPINGS, JournalUsage, read_usage
from jetool.commands.journal.group import (
    IDS,
    JOURNAL_EXITS,
    UnseenReason,
    journal,
    open_journals,
    operation_text,
    product_option,
    star_option,
)
from jetool.frame import exits
from jetool.frame.command import Outputs, command, environment
from jetool.frame.environments import reading_code
from jetool.frame.options import Run


@record()
class UsageCounts(NamedTuple):
    """Journals of one group."""

    journals: Annotated[Int, "how many"]
    bytes: Annotated[SizeBytes, "their values"]
    share: Annotated[Float, "per cent of all bytes"]
    first: Annotated[Int, "the first id"]
    last: Annotated[Int, "the last id"]


@record("operation")
class OperationUsage(NamedTuple):
    """The journals of one operation."""

    op: Annotated[Int | None, "code of the operation; null: values that are too short for one"]
    name: Annotated[Text, "its name; ? for one that is not known"]
    journals: Annotated[Int, Like(UsageCounts)]
    bytes: Annotated[SizeBytes, Like(UsageCounts)]
    share: Annotated[Float, Like(UsageCounts)]
    first: Annotated[Int, Like(UsageCounts)]
    last: Annotated[Int, Like(UsageCounts)]


@record("hour")
class HourUsage(NamedTuple):
    """The journals of one hour."""

    hour: Annotated[Time | None, "when it began; null: before the first journal that holds a time"]
    journals: Annotated[Int, Like(UsageCounts)]
    bytes: Annotated[SizeBytes, Like(UsageCounts)]
    share: Annotated[Float, Like(UsageCounts)]
    first: Annotated[Int, Like(UsageCounts)]
    last: Annotated[Int, Like(UsageCounts)]


@record("summary")
class UsageTotal(NamedTuple):
    """All of them."""

    journals: Annotated[Int, "how many were read"]
    bytes: Annotated[SizeBytes, "their values"]
    unseen: UnseenReason


@command(
    "stats",
    parent=journal,
    outputs=lambda: Outputs("stream", (OperationUsage, HourUsage), UsageTotal),
    features=("fields", "progress", "times", "cache"),
    examples=(
        ("What fills the directory bdb", "jetool journal stats /data/fe/meta"),
        ("When it grew", "jetool journal stats /data/fe/meta --by hour"),
    ),
    exits={exits.DONE: "counted", **JOURNAL_EXITS},
)
@environment
@click.argument("ids", metavar="[A..B]", type=IDS, required=False, help="The ids.  [default: all]")
@click.option(
    "--by",
    "grouping",
    type=click.Choice(GROUPINGS),
    default=BY_OPERATION,
    help="The grouping of the counts.  [default: operation]",
)
@star_option
@product_option
def journal_stats(
    run: Run, env: str, ids: tuple[int, int | None] | None, grouping: str, star_manager: bool, product: str | None
) -> int:
    """Count journals and bytes by operation, the largest first, or by hour.

    The hour is taken from the latest journal before it that holds a time; the master writes one about every ten
    seconds. Nothing is created or changed; the master does not wait, and deletes no log file meanwhile.
    """
    with open_journals(run, env, product) as found:
        extents = found.extents(star_manager)
        first, last = ids or (0, None)
        high = last if last is not None else (extents.last or 0)
        rows = read_usage(found.reader(star_manager), grouping, first, high, extents.journals, run.listener)
        total = sum(row.size_bytes for row in rows)
        by_hour = grouping == BY_HOUR
        with run.out.stream(HourUsage if by_hour else OperationUsage, few=True) as stream:
            printed = [_hour(row, total) if by_hour else _operation(row, total, found.product) for row in rows]
            stream.rows([named_row(one) for one in printed])
            stream.end(UsageTotal(journals=sum(row.journals for row in rows), bytes=total, unseen=found.env.unseen))
        return reading_code(found.env)


def _counts(row: JournalUsage, total: int) -> UsageCounts:
    return UsageCounts(
        journals=row.journals,
        bytes=row.size_bytes,
        share=round(100 * row.size_bytes / total, 2) if total else 0.0,
        first=row.first,
        last=row.last,
    )


def _hour(row: JournalUsage, total: int) -> HourUsage:
    return HourUsage(hour=row.group, **_counts(row, total)._asdict())


def _operation(row: JournalUsage, total: int, product: str | None) -> OperationUsage:
    name = "?" if row.group is None else operation_text(product, row.group)
    return OperationUsage(op=row.group, name=name, **_counts(row, total)._asdict())
