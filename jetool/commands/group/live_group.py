"""A running group as reported by its nodes: output records, and repeated queries."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from engine.errors import JetoolError
from engine.fields import Choices, Float, Int, Text, Time, Vlsn, record
from engine.format.entry.group_db import NODE_TYPES
from engine.format.vlsn import NULL_VLSN
from engine.rep.client.connection import Address, Network
from engine.rep.client.group_state import GroupLook, NodeLook, answers, look
from engine.rep.client.handshake import clock_difference
from engine.rep.peers import address_text
from engine.rep.wire.node_state import STATES
from jetool.commands.group.rows import uuid_text
from jetool.frame import exits
from jetool.frame.options import Run


@record("running_node")
class RunningNode(NamedTuple):
    """A node of the group."""

    name: Annotated[Text, "its name; its address when it does not answer and no record names it"]
    id: Annotated[Int | None, "its node id; null for one that the group database does not hold"]
    type: Annotated[Text | None, "its type; null likewise", Choices(NODE_TYPES)]
    address: Annotated[Text, "where it was asked"]
    state: Annotated[Text | None, "the state that it reports; null when it does not answer", Choices(STATES)]
    master: Annotated[Text | None, "the master that it knows"]
    commit_vlsn: Annotated[Vlsn | None, "its last Commit or Abort"]
    lag: Annotated[Int | None, "by how many VLSNs that is before the master's; null when unknown"]
    joined: Annotated[Time | None, "when it took up its state"]
    feeders: Annotated[Int | None, "how many replicas it feeds"]
    je_version: Annotated[Text | None, "release of JE that it runs"]
    log_version: Annotated[Int | None, "log version that it writes"]
    load: Annotated[Float | None, "load of its machine; null when it is not known"]
    problem: Annotated[Text | None, "why it does not answer; null otherwise"]


@record("running_group")
class RunningGroup(NamedTuple):
    """A running replication group."""

    time: Annotated[Time, "when it was looked at"]
    name: Annotated[Text, "its name"]
    uuid: Annotated[Text, "its identity"]
    change_version: Annotated[Int, "how many changes of membership there were"]
    min_je_version: Annotated[Text | None, "least release of JE for a member; null in old groups"]
    master: Annotated[Text | None, "name of the master; null without one"]
    clock_ahead_ms: Annotated[Int | None, "by how much the master's clock is ahead; null unless --clock"]
    nodes: Annotated[Sequence[RunningNode], "members by id, then other nodes that were asked"]


class LiveGroupOptions(NamedTuple):
    """The options of the command.

    Attributes:
        group: the name of the group, or None.
        timeout_s: of each step.
        max_lag: the largest lag that is not a finding; None for no limit.
        clock: measure the clock of the master; with ``force`` also for untested releases.
        every_s: seconds between two queries; 0 for a single query.
        rounds: number of queries; 0 to continue until interrupted.
    """

    addresses: Sequence[Address]
    group: str | None
    timeout_s: float
    max_lag: int | None
    clock: bool
    force: bool
    every_s: float
    rounds: int


def show(run: Run, network: Network, asked: LiveGroupOptions) -> int:
    """Print the group once or repeatedly.

    Returns:
        Returns the exit code of the last query.
    """
    done = 0
    while True:
        began = time.monotonic()
        try:
            code = _once(run, network, asked)
        except JetoolError as error:
            # A watch continues after errors, so that it also shows when the group is back.
            if not asked.every_s or not done:
                raise
            run.messages.warning(str(error))
            code = error.exit_code
        done += 1
        if not asked.every_s or done == asked.rounds:
            return code
        run.out.flush()
        time.sleep(max(began + asked.every_s - time.monotonic(), 0))


def _once(run: Run, network: Network, asked: LiveGroupOptions) -> int:
    found = look(network, asked.addresses, asked.group, asked.timeout_s)
    ahead = None
    if asked.clock and found.masters:
        place = found.masters[0].address
        ahead = clock_difference(network, place, found.group, asked.timeout_s, force=asked.force)
    stored = found.members.group
    run.out.document(
        RunningGroup(
            time=time.time_ns() // 1_000_000,
            name=found.group,
            uuid=uuid_text(stored.uuid_high, stored.uuid_low),
            change_version=stored.change_version,
            min_je_version=stored.min_je_version,
            master=found.master,
            clock_ahead_ms=ahead,
            nodes=[_node(found, node) for node in found.nodes],
        )
    )
    return _code(found, asked.max_lag)


def _node(found: GroupLook, node: NodeLook) -> RunningNode:
    member, said = node.member, node.said
    silent = RunningNode(
        name=node.name,
        id=None if member is None else member.id,
        type=None if member is None else NODE_TYPES[member.type],
        address=address_text(node.address),
        state=None,
        master=None,
        commit_vlsn=NULL_VLSN,
        lag=None,
        joined=None,
        feeders=None,
        je_version=None,
        log_version=None,
        load=None,
        problem=node.problem or None,
    )
    if said is None:
        return silent
    return silent._replace(
        state=said.state,
        master=said.master or None,
        commit_vlsn=said.commit_vlsn,
        lag=found.lag(node),
        joined=said.joined_ms,
        feeders=said.feeders,
        je_version=said.je_version,
        log_version=said.log_version,
        load=node.load,
        problem=None,
    )


def _code(found: GroupLook, max_lag: int | None) -> int:
    """The exit code: FINDINGS if a node does not answer, if there is not exactly one master, or if the lag is too
    large.
    """
    behind = max_lag is not None and any((found.lag(node) or 0) > max_lag for node in found.nodes)
    whole = all(map(answers, found.nodes)) and len(found.masters) == 1
    return exits.DONE if whole and not behind else exits.FINDINGS
