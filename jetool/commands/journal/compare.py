"""``jetool journal compare``: compare several frontends."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Annotated, Final, NamedTuple

import click

from engine.contents.operations import DORIS
from engine.errors import plural
from engine.fields import Choices, Int, Text, named_row, record
from engine.journals.compare import JournalComparison, NodeJournals, NodeStanding, compare_nodes
from engine.journals.extents import Epochs, read_epochs
from jetool.commands.journal.group import (
    JOURNAL_EXITS,
    Journals,
    UnseenReason,
    journal,
    open_journals,
    product_option,
)
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command, environment
from jetool.frame.options import Run

SAME: Final = "same"
START: Final = "start"
VERDICTS: Final = (START, SAME, "behind", "ahead", "forked", "missing")


@record("node")
class ComparedFrontend(NamedTuple):
    """A frontend compared with the one to start from."""

    environment: Annotated[Text, "directory of the environment"]
    node: Annotated[Text | None, "name of the node, from the file ROLE"]
    role: Annotated[Text | None, "FOLLOWER or OBSERVER"]
    epochs: Annotated[Int, "masterships that it has seen"]
    highest_epoch: Annotated[Int, "the highest of them"]
    first: Annotated[Int | None, "its first id"]
    last: Annotated[Int | None, "its last id"]
    image: Annotated[Int | None, "its newest image"]
    verdict: Annotated[
        Text,
        "start: start from it; same: it has all that one has; behind: it has the beginning; "
        "ahead: it has all and more; forked: it has others from an id on; missing: it lacks one that it should "
        "have, or has one that the other lacks",
        Choices(VERDICTS),
    ]
    common: Annotated[Int | None, "the last id up to which it has the same journals"]
    fork: Annotated[Int | None, "the first id that differs"]
    missing: Annotated[Int | None, "the first id that only one of the two has although both should"]
    behind: Annotated[Int, "journals of the one to start from that it lacks, or has others for"]
    own: Annotated[Int, "journals that only this one has, or has others for"]
    unseen: UnseenReason
    after_damage: Annotated[Int, "journals after damage in its log; they were not compared"]


@record("summary")
class FrontendComparison(NamedTuple):
    """What to start from."""

    nodes: Annotated[Int, "how many were compared"]
    start: Annotated[Text, "the environment to start from"]
    followers: Annotated[Int, "how many have nothing that it lacks or contradicts, itself included"]
    steps: Annotated[Sequence[Text], "what to do with the frontends, in order"]


@command(
    "compare",
    parent=journal,
    outputs=lambda: Outputs("stream", (ComparedFrontend,), FrontendComparison),
    features=("fields", "progress", "cache"),
    examples=(
        ("Which of three frontends to start from", "jetool journal compare /copies/fe1 /copies/fe2 /copies/fe3"),
        ("Where two part, for a script", "jetool journal compare /copies/fe1 /copies/fe2 --json"),
    ),
    exits={
        **JOURNAL_EXITS,
        exits.DONE: "all have the same journals",
        exits.FINDINGS: "they differ, or the log of one is damaged and was not completely read",
    },
)
@environment
@click.argument(
    "others",
    metavar="ENV2...",
    nargs=-1,
    required=True,
    type=params.DIRECTORY,
    help="The environments of other frontends.",
)
@product_option
def journal_compare(run: Run, env: str, others: tuple[str, ...], product: str | None) -> int:
    """Compare the journals of several frontends, and name the frontend to start from when the quorum is lost.

    Journals are equal if operation and payload are equal; zero bytes at the end do not count. The frontend to start
    from is the one whose journals most others have; ties go to the fewest holes, then to the highest epoch, then to the
    largest id. Observers are compared too, but a FOLLOWER is preferred. Journals after damage in a log are counted, not
    compared. Nothing is created or changed.
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
        with run.out.stream(ComparedFrontend, few=True) as stream:
            stream.rows(
                [
                    named_row(_frontend(opened[standing.node], epochs[standing.node], verdict, standing))
                    for standing, verdict in zip(found.nodes, verdicts, strict=True)
                ]
            )
            start = opened[found.start]
            steps = _steps(opened, found, verdicts)
            stream.end(FrontendComparison(nodes=len(opened), start=start.home, followers=found.followers, steps=steps))
        whole = all(one.env.unseen is None for one in opened)
    return exits.DONE if whole and set(verdicts) <= {START, SAME} else exits.FINDINGS


def _verdict(found: JournalComparison, standing: NodeStanding) -> str:
    if standing.node == found.start:
        return START
    if standing.parting.fork is not None:
        return "forked"
    if standing.parting.missing is not None:
        return "missing"
    if standing.own:
        return "ahead"
    return "behind" if standing.behind else SAME


def _frontend(one: Journals, epochs: Epochs, verdict: str, standing: NodeStanding) -> ComparedFrontend:
    files, extents, parting = one.files, one.families[0], standing.parting
    unseen = one.reader().unseen
    return ComparedFrontend(
        environment=one.home,
        node=files.node if files else None,
        role=files.role if files else None,
        epochs=epochs.records,
        highest_epoch=epochs.highest,
        first=extents.first,
        last=extents.last,
        image=one.image,
        verdict=verdict,
        common=parting.common,
        fork=parting.fork,
        missing=parting.missing,
        behind=standing.behind,
        own=standing.own,
        unseen=one.env.unseen,
        after_damage=len(unseen.journals) if unseen is not None else 0,
    )


def _steps(opened: list[Journals], found: JournalComparison, verdicts: list[str]) -> list[str]:
    """The vendor's procedure for a lost quorum, for these frontends."""
    start = opened[found.start]
    if set(verdicts) <= {START, SAME} and all(one.env.unseen is None for one in opened):
        return ["nothing: all frontends have the same journals"]
    steps = ["stop all frontends, and keep a copy of each meta directory"]
    for home, unseen in ((one.home, one.reader().unseen) for one in opened):
        if unseen is not None and unseen.journals:
            steps.append(
                f"examine the journals after damage in {home}, since JE will cut them off "
                f"({plural(len(unseen.journals), 'journal')}): jetool journal show {home} {unseen.journals[0].id}.."
            )
    for one in found.nodes:
        if one.own and one.node != found.start:
            home, parting = opened[one.node].home, one.parting
            first = parting.missing or parting.fork or (parting.common or 0) + 1
            steps.append(
                f"examine the journals that only {home} has, since they will be lost ({plural(one.own, 'journal')}): "
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
