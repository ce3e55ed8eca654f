"""``jetool journal compare``: several frontends side by side."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

import click

from engine.contents.operations import DORIS
from engine.errors import plural
from engine.journals.compare import Comparison, NodeJournals, NodeStanding, compare_nodes
from engine.journals.extents import Epochs, read_epochs
from jetool.app import exits, params
from jetool.app.command import Outputs, command, environment
from jetool.app.options import Run
from jetool.commands.journal.group import (
    JOURNAL_EXITS,
    UNSEEN_REASON,
    Journals,
    journal,
    open_journals,
    product_option,
)
from jetool.output.shape import Field, Row, Shape

SAME: Final = "same"
START: Final = "start"
VERDICTS: Final = (START, SAME, "behind", "ahead", "forked", "missing")
NODE: Final = Shape(
    "node",
    "One frontend beside the one to start from.",
    (
        Field("environment", "text", "directory of the environment"),
        Field("node", "text", "name of the node, from the file ROLE", null=True),
        Field("role", "text", "FOLLOWER or OBSERVER", null=True),
        Field("epochs", "int", "masterships that it has seen"),
        Field("highest_epoch", "int", "the highest of them"),
        Field("first", "int", "its first id", null=True),
        Field("last", "int", "its last id", null=True),
        Field("image", "int", "its newest image", null=True),
        Field("verdict", "text", "start: start from it; same: it has all that one has; behind: it has the beginning; "
              "ahead: it has all and more; forked: it has others from an id on; missing: it lacks one that it should "
              "have, or has one that the other lacks", choices=VERDICTS),
        Field("common", "int", "the last id up to which it has the same journals", null=True),
        Field("fork", "int", "the first id that differs", null=True),
        Field("missing", "int", "the first id that only one of the two has although both should", null=True),
        Field("behind", "int", "journals of the one to start from that it lacks, or has others for"),
        Field("own", "int", "journals that only this one has, or has others for"),
        UNSEEN_REASON,
        Field("after_damage", "int", "journals that stand after damage in its log; they were not compared"),
    ),
)  # fmt: skip
COMPARED: Final = Shape(
    "summary",
    "What to start from.",
    (
        Field("nodes", "int", "how many were compared"),
        Field("start", "text", "the environment to start from"),
        Field("followers", "int", "how many have nothing that it lacks or contradicts, itself included"),
        Field("steps", "texts", "what to do with the frontends, in order"),
    ),
)


@command(
    "compare",
    parent=journal,
    outputs=lambda: Outputs("stream", (NODE,), COMPARED),
    features=("fields", "progress", "cache"),
    examples=(
        ("Which of three frontends to start from", "jetool journal compare /copies/fe1 /copies/fe2 /copies/fe3"),
        ("Where two part, for a script", "jetool journal compare /copies/fe1 /copies/fe2 --json"),
    ),
    exits={
        **JOURNAL_EXITS,
        exits.DONE: "all have the same journals",
        exits.FINDINGS: "they differ, or the log of one is damaged and was not seen whole",
    },
)
@environment
@click.argument("others", metavar="ENV2...", nargs=-1, required=True, type=params.DIRECTORY,
                help="The environments of other frontends.")  # fmt: skip
@product_option
def journal_compare(run: Run, env: str, others: tuple[str, ...], product: str | None) -> int:
    """Compare the journals of several frontends, and say which of them to start from when the quorum is lost.

    Journals are the same when operation and payload are; zero bytes at the end do not count. To start from is the
    frontend whose journals the most others have; of several the one with the fewest holes, then the one with the
    highest epoch, then the one with the largest id. Observers are compared, too, but a frontend to start from is a
    FOLLOWER where there is one. Journals that stand after damage in a log are counted, not compared. Nothing is created
    or changed.
    """
    with ExitStack() as stack:
        opened = [stack.enter_context(open_journals(run, place, product)) for place in (env, *others)]
        epochs = [read_epochs(one.env) for one in opened]
        nodes = [
            NodeJournals(
                name=one.home,
                reader=one.reader(),
                first=one.families[0].first or 0,
                last=one.families[0].last if one.families[0].last is not None else (one.families[0].first or 0) - 1,
                epoch=epoch.highest,
                may_lead=one.files is None or one.files.role != "OBSERVER",
            )
            for one, epoch in zip(opened, epochs, strict=True)
        ]
        found = compare_nodes(nodes, run.listener)
        verdicts = [_verdict(found, standing) for standing in found.nodes]
        with run.out.stream(NODE, few=True) as stream:
            stream.rows(
                [
                    (NODE.rec, _row(opened[standing.node], epochs[standing.node], verdict, standing))
                    for standing, verdict in zip(found.nodes, verdicts, strict=True)
                ]
            )
            start = opened[found.start]
            steps = _steps(opened, found, verdicts)
            stream.end(COMPARED.row((len(opened), start.home, found.followers, steps)))
        whole = all(one.env.unseen is None for one in opened)
    return exits.DONE if whole and set(verdicts) <= {START, SAME} else exits.FINDINGS


def _verdict(found: Comparison, standing: NodeStanding) -> str:
    if standing.node == found.start:
        return START
    if standing.parting.fork is not None:
        return "forked"
    if standing.parting.missing is not None:
        return "missing"
    if standing.own:
        return "ahead"
    return "behind" if standing.behind else SAME


def _row(one: Journals, epochs: Epochs, verdict: str, standing: NodeStanding) -> Row:
    files, extents, parting = one.files, one.families[0], standing.parting
    unseen = one.reader().unseen
    return NODE.row(
        (
            one.home, files.node if files else None, files.role if files else None, epochs.records, epochs.highest,
            extents.first, extents.last, one.image, verdict, parting.common, parting.fork, parting.missing,
            standing.behind, standing.own, one.env.unseen, len(unseen.journals) if unseen is not None else 0,
        )
    )  # fmt: skip


def _steps(opened: list[Journals], found: Comparison, verdicts: list[str]) -> list[str]:
    """The vendors' procedure for a lost quorum, for these frontends."""
    start = opened[found.start]
    if set(verdicts) <= {START, SAME} and all(one.env.unseen is None for one in opened):
        return ["nothing: all frontends have the same journals"]
    steps = ["stop all frontends, and keep a copy of each meta directory"]
    for home, unseen in ((one.home, one.reader().unseen) for one in opened):
        if unseen is not None and unseen.journals:
            steps.append(
                f"look at what stands after damage in {home}, since JE will cut it away "
                f"({plural(len(unseen.journals), 'journal')}): jetool journal show {home} {unseen.journals[0].id}.."
            )
    for one in found.nodes:
        if one.own and one.node != found.start:
            home, parting = opened[one.node].home, one.parting
            first = parting.missing or parting.fork or (parting.common or 0) + 1
            steps.append(
                f"look at what only {home} has, since it will be lost ({plural(one.own, 'journal')}): "
                f"jetool journal show {home} {first}.."
            )
    option = "metadata_failure_recovery=true in fe.conf"
    if start.product == DORIS:
        option += " (newer releases: start_fe.sh --metadata_failure_recovery)"
    steps += [
        f"start {start.home} alone with {option}",
        "when it leads: drop the other frontends (ALTER SYSTEM DROP FOLLOWER), empty their meta directories, and add "
        "them again with --helper",
        "take the setting out again, and restart that frontend",
    ]
    return steps
