"""``jetool journal stats``: what fills the environment."""

from __future__ import annotations

from typing import Final

import click

from engine.journals.usage import BY_HOUR, BY_OPERATION, GROUPINGS, JournalUsage, read_usage
from jetool.app import exits
from jetool.app.command import Outputs, command, environment
from jetool.app.opening import reading_code
from jetool.app.options import Run
from jetool.commands.journal.group import (
    IDS,
    JOURNAL_EXITS,
    UNSEEN_REASON,
    journal,
    open_journals,
    operation_text,
    product_option,
    star_option,
)
from jetool.output.shape import Field, Row, Shape

_COUNTS: Final = (
    Field("journals", "int", "how many"),
    Field("bytes", "size_bytes", "their values"),
    Field("share", "float", "per cent of all bytes"),
    Field("first", "int", "the first id"),
    Field("last", "int", "the last id"),
)
OPERATION: Final = Shape(
    "operation",
    "The journals of one operation.",
    (
        Field("op", "int", "code of the operation; null: values that are too short for one", null=True),
        Field("name", "text", "its name; ? for one that is not known"),
        *_COUNTS,
    ),
)
HOUR: Final = Shape(
    "hour",
    "The journals of one hour.",
    (Field("hour", "time", "when it began; null: before the first journal that holds a time", null=True), *_COUNTS),
)
TOTAL: Final = Shape(
    "summary",
    "All of them.",
    (Field("journals", "int", "how many were read"), Field("bytes", "size_bytes", "their values"), UNSEEN_REASON),
)


@command(
    "stats",
    parent=journal,
    outputs=lambda: Outputs("stream", (OPERATION, HOUR), TOTAL),
    features=("fields", "progress", "times", "cache"),
    examples=(
        ("What fills the directory bdb", "jetool journal stats /data/fe/meta"),
        ("When it grew", "jetool journal stats /data/fe/meta --by hour"),
    ),
    exits={exits.DONE: "counted", **JOURNAL_EXITS},
)
@environment
@click.argument("ids", metavar="[A..B]", type=IDS, required=False, help="The ids; all of them when left out.")
@click.option("--by", "grouping", type=click.Choice(GROUPINGS), default=BY_OPERATION,
              help="What to count by.  [default: operation]")  # fmt: skip
@star_option
@product_option
def journal_stats(
    run: Run, env: str, ids: tuple[int, int | None] | None, grouping: str, star_manager: bool, product: str | None
) -> int:
    """Count journals and bytes by operation, the largest first, or by hour.

    The hour is that of the newest journal that holds a time: the master writes one every ten seconds or so. Nothing is
    locked, created or changed.
    """
    with open_journals(run, env, product) as found:
        extents = found.extents(star_manager)
        first, last = ids or (0, None)
        high = last if last is not None else (extents.last or 0)
        rows = read_usage(found.reader(star_manager), grouping, first, high, extents.journals, run.listener)
        total = sum(row.size_bytes for row in rows)
        shape = HOUR if grouping == BY_HOUR else OPERATION
        with run.out.stream(shape, few=True) as stream:
            stream.rows([(shape.rec, _row(shape, row, total, found.product)) for row in rows])
            stream.end(TOTAL.row((sum(row.journals for row in rows), total, found.env.unseen)))
        return reading_code(found.env)


def _row(shape: Shape, row: JournalUsage, total: int, product: str | None) -> Row:
    share = round(100 * row.size_bytes / total, 2) if total else 0.0
    named = ("?" if row.group is None else operation_text(product, row.group),) if shape is OPERATION else ()
    return shape.row((row.group, *named, row.journals, row.size_bytes, share, row.first, row.last))
