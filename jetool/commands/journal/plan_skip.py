"""``jetool journal plan-skip``: consequences of skipping journals, and the configuration line for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

import click

from engine.contents.operations import DORIS, STARROCKS, may_skip
from engine.fields import Int, Text, record
from jetool.commands.journal.group import JOURNAL_EXITS, Journals, journal, open_journals, product_option
from jetool.commands.journal.rows import PrintedJournal, journal_line, printed_journal
from jetool.frame import exits
from jetool.frame.command import Outputs, command, environment
from jetool.frame.options import Run

# The settings for skipping journals (fe-journals.md 5).
SETTINGS: Final = {DORIS: "force_skip_journal_ids", STARROCKS: "metadata_journal_skip_bad_journal_ids"}
IGNORE: Final = "metadata_journal_ignore_replay_failure=true"


@record("summary")
class SkipPlan(NamedTuple):
    """What to configure."""

    journals: Annotated[Int, "journals above"]
    refused: Annotated[Sequence[Int], "ids of operations that StarRocks never passes over by itself"]
    setting: Annotated[Text | None, "the line for fe.conf; null when the product is not known"]
    instead: Annotated[Text | None, "a line for fe.conf that names no ids; null without one"]
    risks: Annotated[Sequence[Text], "what it means"]


@command(
    "plan-skip",
    parent=journal,
    outputs=lambda: Outputs("stream", (PrintedJournal,), SkipPlan),
    features=("fields", "progress", "times", "cache"),
    examples=(
        ("What would be lost without one journal", "jetool journal plan-skip /data/fe/meta 349360906"),
        ("The line for fe.conf, for a script", "jetool journal plan-skip /data/fe/meta 17 18 --json"),
    ),
    exits={
        **JOURNAL_EXITS,
        exits.DONE: "printed; the product can be configured to skip all of them, or that is unknown",
        exits.FINDINGS: "printed; StarRocks does not skip one of them on its own",
    },
)
@environment
@click.argument("numbers", metavar="ID...", nargs=-1, required=True, type=click.IntRange(0), help="Ids of journals.")
@product_option
def journal_plan_skip(run: Run, env: str, numbers: tuple[int, ...], product: str | None) -> int:
    """Print what journals do, whether the product may skip them, and the line of configuration that skips them.

    A frontend that cannot replay a journal stops there. If a journal is skipped, its operation never happened on this
    node, and later journals may depend on it. Neither the environment nor fe.conf is changed.
    """
    with open_journals(run, env, product) as found:
        reader = found.reader()
        journals = [reader.find(number) for number in sorted(set(numbers))]
        refused = [
            one.id for one in journals if one.journal is not None and may_skip(found.product, one.journal.code) is False
        ]
        with run.out.stream(PrintedJournal, line=journal_line) as stream:
            for one in journals:
                stream.row(printed_journal(found.product, one))
            ids = ",".join(str(one.id) for one in journals)
            name = SETTINGS.get(found.product or "")
            setting = f"{name}={ids}" if name is not None else None
            instead = IGNORE if found.product == STARROCKS and not refused else None
            stream.end(
                SkipPlan(
                    journals=len(journals),
                    refused=refused,
                    setting=setting,
                    instead=instead,
                    risks=_risks(found, refused),
                )
            )
    return exits.FINDINGS if refused else exits.DONE


def _risks(found: Journals, refused: list[int]) -> list[str]:
    risks = ["what these journals did is missing on the node; set it on every frontend, or their states differ"]
    if refused:
        risks.append("operations that StarRocks does not mark as safe to lose: tables, partitions or data may go")
    if found.product is None:
        risks.append("the product cannot be determined: name it with --product")
    elif found.product == DORIS:
        risks.append("Doris does not state which operations may be skipped safely")
    risks.append("remove the line from fe.conf once an image newer than these ids is written")
    return risks
