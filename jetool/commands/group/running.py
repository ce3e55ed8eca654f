"""A group that runs, as its nodes show it: rows, and looking at it again and again."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple

from engine.errors import JetoolError
from engine.format.entry.group_db import NODE_TYPES
from engine.rep.client.connection import Address, Network
from engine.rep.client.handshake import clock_difference
from engine.rep.client.looking import GroupLook, NodeLook, answers, look
from engine.rep.peers import address_text
from engine.rep.wire.node_state import STATES
from jetool.app import exits
from jetool.app.options import Run
from jetool.output.shape import NULL_VLSN, Field, Row, Shape

_NODE: Final = Shape(
    "running_node",
    "A node of the group.",
    (
        Field("name", "text", "its name; its address when it does not answer and no record names it"),
        Field("id", "int", "its node id; null for one that the group database does not hold", null=True),
        Field("type", "text", "its type; null likewise", null=True, choices=NODE_TYPES),
        Field("address", "text", "where it was asked"),
        Field("state", "text", "what it says that it is; null when it does not answer", null=True, choices=STATES),
        Field("master", "text", "the master that it knows", null=True),
        Field("commit_vlsn", "vlsn", "its last Commit or Abort", null=True),
        Field("lag", "int", "by how many VLSNs that is before the master's; null when nobody can tell", null=True),
        Field("joined", "time", "when it took up its state", null=True),
        Field("feeders", "int", "how many replicas it feeds", null=True),
        Field("je_version", "text", "release of JE that it runs", null=True),
        Field("log_version", "int", "log version that it writes", null=True),
        Field("load", "float", "load of its machine; null when it is not known", null=True),
        Field("problem", "text", "why it does not answer; null otherwise", null=True),
    ),
)
RUNNING: Final = Shape(
    "running_group",
    "A replication group that runs.",
    (
        Field("time", "time", "when it was looked at"),
        Field("name", "text", "its name"),
        Field("uuid", "text", "its identity"),
        Field("change_version", "int", "how many changes of membership there were"),
        Field("min_je_version", "text", "least release of JE for a member; null in old groups", null=True),
        Field("master", "text", "name of the master; null when there is none", null=True),
        Field("clock_ahead_ms", "int", "by how much the master's clock is ahead; null unless --clock", null=True),
        Field("nodes", "records", "members by id, then other nodes that were asked", fields=_NODE.fields),
    ),
)


class Looking(NamedTuple):
    """What the command line asked for.

    Attributes:
        group: its name, or None.
        timeout_s: of each step.
        max_lag: more is a finding; None for any.
        clock: measure the clock of the master; ``force`` also where the release was never tried.
        every_s: look again after so many seconds; 0 for once.
        rounds: look so often; 0 for until interrupted.
    """

    addresses: Sequence[Address]
    group: str | None
    timeout_s: float
    max_lag: int | None
    clock: bool
    force: bool
    every_s: float
    rounds: int


def show(run: Run, network: Network, asked: Looking) -> int:
    """Print the group once, or again and again.

    Returns:
        The exit code of the last look.
    """
    done = 0
    while True:
        began = time.monotonic()
        try:
            code = _once(run, network, asked)
        except JetoolError as error:
            # Whoever watches a group wants to see it come back.
            if not asked.every_s or not done:
                raise
            run.messages.warning(str(error))
            code = error.exit_code
        done += 1
        if not asked.every_s or done == asked.rounds:
            return code
        run.out.flush()
        time.sleep(max(began + asked.every_s - time.monotonic(), 0))


def _once(run: Run, network: Network, asked: Looking) -> int:
    found = look(network, asked.addresses, asked.group, asked.timeout_s)
    ahead = None
    if asked.clock and found.masters:
        place = found.masters[0].address
        ahead = clock_difference(network, place, found.group, asked.timeout_s, force=asked.force)
    record = found.members.group
    # JE keeps a UUID as two signed longs.
    high, low = (part & (1 << 64) - 1 for part in (record.uuid_high, record.uuid_low))
    run.out.document(RUNNING, RUNNING.row(
        (
            time.time_ns() // 1_000_000, found.group, str(uuid.UUID(int=high << 64 | low)), record.change_version,
            record.min_je_version, found.master, ahead, [_node_row(found, node) for node in found.nodes],
        )
    ))  # fmt: skip
    return _code(found, asked.max_lag)


def _node_row(found: GroupLook, node: NodeLook) -> Row:
    member, said = node.member, node.said
    known = (None, None) if member is None else (member.id, NODE_TYPES[member.type])
    head = (node.name, *known, address_text(node.address))
    if said is None:
        return _NODE.row((*head, None, None, NULL_VLSN, *[None] * 6, node.problem or None))
    return _NODE.row(
        (
            *head, said.state, said.master or None, said.commit_vlsn, found.lag(node), said.joined_ms, said.feeders,
            said.je_version, said.log_version, node.load, None,
        )
    )  # fmt: skip


def _code(found: GroupLook, max_lag: int | None) -> int:
    """Findings: a node that does not answer, not exactly one master, more lag than is allowed."""
    behind = max_lag is not None and any((found.lag(node) or 0) > max_lag for node in found.nodes)
    whole = all(map(answers, found.nodes)) and len(found.masters) == 1
    return exits.DONE if whole and not behind else exits.FINDINGS
