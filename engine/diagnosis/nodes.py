"""Several directories side by side: the nodes of each group, and the one to start from.

Groups are told apart by name and UUID; environments without a group are compared if they are copies of one
(``engine.diagnosis.copies``). Frontends are compared by their journals (``engine.journals.compare``), other
nodes by their streams (``engine.vlsn.compare``): the node with the highest DTVLSN, then the highest VLSN of a
transaction, as in an election of JE. Only nodes that can start are candidates, if there are any.

Example: three frontends; the second has a flipped bit before ten journals, which the others have: start from the first;
the second is behind by eleven journals.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Annotated, Final, NamedTuple

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.diagnosis.copies import compare_copies, copies_among
from engine.diagnosis.frontend import image_directory
from engine.diagnosis.record import FRONTEND, NO, Diagnosis, Step
from engine.diagnosis.steps import READS
from engine.errors import JetoolError
from engine.events import SILENT, Listener
from engine.fields import Choices, Int, Text, record
from engine.format.stream_facts import StreamFacts
from engine.inspect.log_stream import read_stream
from engine.journals.compare import NodeJournals, NodeStanding, compare_nodes
from engine.journals.extents import read_epochs, read_extents
from engine.journals.metadata import read_metadata
from engine.journals.reader import JournalReader
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage
from engine.vlsn.compare import AHEAD, BEHIND, IDENTICAL, IN_STEP, compare

START: Final = "start"
SAME: Final = "same"
IS_BEHIND: Final = "behind"
IS_AHEAD: Final = "ahead"
FORKED: Final = "forked"
CANNOT_START: Final = "cannot start"
NOT_COMPARED: Final = "not compared"
STANDINGS: Final = (START, SAME, IS_BEHIND, IS_AHEAD, FORKED, CANNOT_START, NOT_COMPARED)
_DIFFERENT: Final = (IS_BEHIND, IS_AHEAD, FORKED)

JOURNALS: Final = "journals"
STREAM: Final = "stream"
LOG: Final = "log"
BASES: Final = (JOURNALS, STREAM, LOG)


@record()
class NodeRank(NamedTuple):
    """A node compared with the one to start from."""

    directory: Annotated[Text, "its directory"]
    node: Annotated[Text | None, "its name"]
    standing: Annotated[Text, "compared with the one to start from", Choices(STANDINGS)]
    last: Annotated[Int | None, "its last journal, or the VLSN of its last transaction; null if it was not read"]
    behind: Annotated[Int, "journals or transactions that it lacks"]
    own: Annotated[Int, "those that only this one has, which are lost"]


@record()
class NodeChoice(NamedTuple):
    """Nodes of one group, or copies of one environment."""

    group: Annotated[Text | None, "name of the group; null for copies of an environment without a group"]
    uuid: Annotated[Text | None, "its identity; groups are told apart by it"]
    basis: Annotated[Text, "what was compared", Choices(BASES)]
    start: Annotated[Text | None, "the directory to start from; null when none can start"]
    nodes: Annotated[tuple[NodeRank, ...], "the nodes"]
    problem: Annotated[Text | None, "why they were not compared; null when they were"]
    next: Annotated[tuple[Step, ...], "commands that show the differences"]


def choose_nodes(found: Sequence[Diagnosis], listener: Listener = SILENT) -> list[NodeChoice]:
    """Compare the nodes of each group that has more than one of the directories, and copies of one environment."""
    groups: dict[tuple[str, str], list[Diagnosis]] = {}
    for one in found:
        if one.identity.group_uuid is not None:
            groups.setdefault((one.identity.group or "", one.identity.group_uuid), []).append(one)
    choices = [_choice(name, uuid, nodes, listener) for (name, uuid), nodes in groups.items() if len(nodes) > 1]
    return choices + [_choice(None, None, copies, listener) for copies in copies_among(found, listener)]


def _choice(group: str | None, group_uuid: str | None, nodes: list[Diagnosis], listener: Listener) -> NodeChoice:
    able = [one for one in nodes if one.can_start != NO]
    basis = STREAM
    if group_uuid is None:
        basis = LOG
    elif all(one.identity.application == FRONTEND for one in nodes):
        basis = JOURNALS
    start: str | None = None
    ranks: list[NodeRank] = []
    problem: str | None = None
    try:
        if able:
            start, ranks = {JOURNALS: _by_journals, STREAM: _by_stream, LOG: _by_log}[basis](able, listener)
    except JetoolError as error:
        problem = str(error)
        ranks = [_rank(one, NOT_COMPARED) for one in able]
    ranks += [_rank(one, CANNOT_START) for one in nodes if one.can_start == NO]
    order = [one.directory for one in nodes]
    return NodeChoice(
        group=group,
        uuid=group_uuid,
        basis=basis,
        start=start,
        nodes=tuple(sorted(ranks, key=lambda one: order.index(one.directory))),
        problem=problem,
        next=tuple(_steps(basis, start, [one.directory for one in ranks if one.standing in _DIFFERENT])),
    )


def _steps(basis: str, start: str | None, different: list[str]) -> Iterator[Step]:
    if start is None or not different:
        return
    if basis == JOURNALS:
        paths = " ".join(map(shlex.quote, (start, *different)))
        purpose = "the journals that only one of them has, and the procedure of the vendor, step by step"
        yield Step(command=f"jetool journal compare {paths}", purpose=purpose, risk=READS)
        return
    for path in different:
        command = f"jetool diff {shlex.quote(start)} {shlex.quote(path)}"
        yield Step(command=command, purpose="the first difference, and what each has that the other lacks", risk=READS)


def _rank(one: Diagnosis, standing: str, last: int | None = None, behind: int = 0, own: int = 0) -> NodeRank:
    return NodeRank(
        directory=one.directory, node=one.identity.node, standing=standing, last=last, behind=behind, own=own
    )


def _by_journals(nodes: list[Diagnosis], listener: Listener) -> tuple[str, list[NodeRank]]:
    with ExitStack() as stack:
        sides = []
        for one in nodes:
            env = stack.enter_context(Environment(one.directory, EnvironmentConfig(read_only=True), listener))
            own = read_extents(env)[0]
            files = read_metadata(DiskStorage(image_directory(one.directory)))
            first = own.first or 0
            sides.append(
                NodeJournals(
                    name=one.directory,
                    reader=JournalReader(env, own),
                    first=first,
                    last=own.last if own.last is not None else first - 1,
                    epoch=read_epochs(env).highest,
                    may_lead=files is None or files.role != "OBSERVER",
                )
            )
        found = compare_nodes(sides, listener)
    ranks = []
    for side in found.nodes:
        standing = START if side.node == found.start else _journal_standing(side)
        ranks.append(_rank(nodes[side.node], standing, sides[side.node].last, side.behind, side.own))
    return nodes[found.start].directory, ranks


def _journal_standing(one: NodeStanding) -> str:
    if one.parting.fork is not None or (one.own and one.behind):
        return FORKED
    if one.own:
        return IS_AHEAD
    return IS_BEHIND if one.behind else SAME


def _by_stream(nodes: list[Diagnosis], listener: Listener) -> tuple[str, list[NodeRank]]:
    facts = []
    for done, one in enumerate(nodes):
        listener.step("streams", done, len(nodes))
        disk = DiskStorage(one.directory)
        facts.append(read_stream(disk, list_log_files(disk)).facts)
    start = max(range(len(nodes)), key=lambda at: _election(facts[at]))
    ranks = []
    for one, mine in zip(nodes, facts, strict=True):
        if one is nodes[start]:
            ranks.append(_rank(one, START, _election(mine)[1]))
            continue
        found = compare(mine, facts[start])
        standing = {IDENTICAL: SAME, IN_STEP: SAME, AHEAD: IS_AHEAD, BEHIND: IS_BEHIND}.get(found.relation, FORKED)
        behind, own = found.other_surplus.ended, found.surplus.ended
        ranks.append(_rank(one, standing, _election(mine)[1], behind, own))
    return nodes[start].directory, ranks


def _by_log(copies: list[Diagnosis], listener: Listener) -> tuple[str, list[NodeRank]]:
    start, standings = compare_copies(copies, listener)
    ranks = []
    for one, behind, own in standings:
        standing = START if one.directory == start else SAME
        if behind or own:
            standing = FORKED if behind and own else (IS_BEHIND if behind else IS_AHEAD)
        ranks.append(_rank(one, standing, None, behind, own))
    return start, ranks


def _election(facts: StreamFacts) -> tuple[int, int]:
    """DTVLSN and VLSN of the last transaction end, as JE ranks nodes in an election."""
    last = next((point for point in reversed(facts.sync_points) if point.is_txn_end), None)
    return (0, 0) if last is None else (last.dtvlsn, last.vlsn)
