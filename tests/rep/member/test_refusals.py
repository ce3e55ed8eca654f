"""What ends a node that joins, each with its message and exit code (je-ha-protocol.md 7, 10.6)."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from engine.errors import JetoolError, RefusedError
from engine.format.codecs import encode_body
from engine.format.entry_types import COMMIT, INS_LN_TX
from engine.rep.client.connection import Address, Connection, Network
from engine.rep.member.node import JoinedNode
from engine.rep.peers import DisconnectedError
from engine.rep.restore import holds_log
from engine.rep.wire import feeder as f
from engine.rep.wire.messages import Message
from engine.storage.memory import MemoryStorage
from tests.support.groups.copy_server import CopyServer
from tests.support.groups.playing import (
    WholeGroup,
    config_of,
    failure_of,
    files_of,
    followed,
    group_of,
    joined,
    null_transaction,
    opened,
    operations,
)
from tests.support.groups.streams import check_index
from tests.support.waiting import PATIENCE_S, eventually


@dataclass(frozen=True)
class Case:
    """What is wrong, and what is said of it."""

    text: str
    code: int
    group: dict[str, Any] = field(default_factory=dict)
    node: dict[str, Any] = field(default_factory=dict)


def refuse(kind: type[Message], answer: Message) -> dict[str, Any]:
    return {"refuse": lambda message: answer if isinstance(message, kind) else None}


CASES = {
    "wrong group": Case("Group name mismatch", 3, node={"group": "OTHER"}),
    "name in use": Case(
        "has an active node 'copy1' already", 3, refuse(f.ReplicaProtocolVersion, f.DuplicateNodeReject(text="twice"))
    ),
    "name of a member": Case(
        "conflicts with a member", 3, refuse(f.NodeGroupInfo, f.NodeGroupInfoReject(text="conflicts with a member"))
    ),
    "least release": Case(
        "Unsupported JE version", 5, refuse(f.ReplicaJEVersions, f.JEVersionsReject(text="Unsupported JE version"))
    ),
    "clock ahead": Case("is 2900 ms ahead of the one here", 3, {"clock_ms": 2900}),
    "clock after": Case("is 2900 ms after the one here", 3, {"clock_ms": -2900}),
    "release never tried": Case("7.3 to 25.3", 5, {"je_version": "26.1.0"}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_group_turns_it_away(case: Case) -> None:
    error = failure_of(group_of(operations()[:20], **case.group), MemoryStorage(), **case.node)
    assert isinstance(error, JetoolError)
    assert case.text in str(error).replace("\n", " ")
    assert error.exit_code == case.code


def test_a_member_that_is_being_made() -> None:
    """A master of JE without a majority says nothing for long; afterwards it takes a node for its own rival once."""
    text = "New or moved node:copy1, is configured with the socket address: a:1.  It conflicts with the socket already"
    answers: list[Message | bytes] = [f.NodeGroupInfoReject(text=f"{text} used by the member: copy1"), b""]

    def refuse_at_first(message: Message) -> Message | bytes | None:
        if not isinstance(message, f.NodeGroupInfo):
            return None
        seen.append(str(node.problem))
        return answers.pop() if answers else None

    log, seen = operations(), list[str]()
    group = group_of(log, node_type="ELECTABLE", refuse=refuse_at_first)
    node = JoinedNode(MemoryStorage(), config_of(group, node_type="ELECTABLE"), WholeGroup(group, CopyServer({})))
    node.start()
    try:
        assert node.await_vlsn(log[-1].vlsn, PATIENCE_S), node.failure or node.problem
    finally:
        node.stop()
    # What it says when it tries again.
    assert seen[0] == "None"
    assert "has not made this node a member" in seen[1]
    assert "is making this node a member" in seen[2]


def test_it_is_turned_away_before_it_copies() -> None:
    storage = MemoryStorage()
    error = failure_of(group_of(operations(), clock_ms=2900), storage, most_replayed=10)
    assert "expected at most 2000 ms, found 2900 ms" in str(error).replace("\n", " ")
    assert not holds_log(storage)


def test_nobody_is_there() -> None:
    group = group_of(operations()[:20], down={"n1"})
    error = failure_of(group, MemoryStorage())
    assert isinstance(error, JetoolError)
    assert (error.exit_code, "no node answers" in str(error)) == (4, True)


def test_a_group_that_is_down_for_a_while_is_waited_for() -> None:
    """By a node that was in it before, whatever its nodes say meanwhile; another one is told at once."""
    log, storage = operations(), MemoryStorage()
    followed(group_of(log[:20]), storage)
    group = group_of(log, down={"n1"})
    with joined(group, storage) as node:
        eventually(lambda: "cannot be reached" in str(node.problem))
        assert node.failure is None
        group.down = set()
        assert node.await_vlsn(log[-1].vlsn, PATIENCE_S), node.problem


def test_a_group_of_another_identity() -> None:
    """Of another name than the environment's, and of the same name with another UUID."""
    storage = MemoryStorage()
    followed(group_of(operations()[:20]), storage)
    with pytest.raises(RefusedError, match="is of another group"), joined(group_of([]), storage, group="OTHER"):
        pass
    assert "another uuid" in str(failure_of(group_of(operations(), uuid=(5, 6)), storage))


def test_a_later_log_version() -> None:
    """An LN of a version after the agreed one is refused. A copy keeps the version of the log if it can."""
    log = operations()
    at = next(at for at, entry in enumerate(log) if at > 20 and entry.type_number == INS_LN_TX)
    record = log[at].record()
    later = log[at]._replace(log_version=26, body=encode_body(INS_LN_TX, 26, record))
    error = failure_of(group_of([*log[:at], later]), MemoryStorage())
    assert isinstance(error, JetoolError)
    assert (error.exit_code, "a later log version" in str(error)) == (5, True)
    storage = MemoryStorage()
    followed(group_of(log[:40]), storage)
    mixed = group_of(log[60:], log, log_version=26, je_version="25.3.17")
    mixed.nodes[1].log_version = 17
    followed(mixed, storage, CopyServer(files_of(log)), restore=True)
    with opened(storage) as env:
        assert env.engine.log_version == 17


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda log: log[:30] + log[31:], "VLSN 31 has to come next"),
        (lambda log: [*log[:30], log[30]._replace(body=log[30].body[:3])], "makes no sense"),
        (lambda log: [*log[:30], null_transaction(31, 9000)], "no entry of transaction"),
    ],
)
def test_a_stream_that_makes_no_sense(spoil: Any, text: str) -> None:
    """A gap, a torn body, the end of a transaction that no master begins: the node stops, and keeps what it had."""
    log = operations()
    assert log[29].type_number == COMMIT
    group = group_of(spoil(log))
    storage = MemoryStorage()
    with joined(group, storage) as node:
        assert node.await_end(20)
        assert node.status().last_vlsn == 30
    assert text in str(node.failure)


class Flipping:
    """A network that changes one bit of what the master sends."""

    def __init__(self, network: Network, at: int) -> None:
        self._network = network
        self.left = at

    def connect(self, address: Address, deadline: float) -> Connection:
        """A connection of which a bit may be another one."""
        return _FlippingConnection(self, self._network.connect(address, deadline))


class _FlippingConnection:
    def __init__(self, network: Flipping, connection: Connection) -> None:
        self._network = network
        self._connection = connection
        self.send, self.close = connection.send, connection.close

    def receive(self, deadline: float) -> bytes:
        """What has come, or nearly."""
        try:
            data = bytearray(self._connection.receive(deadline))
        except AssertionError as error:
            # The client waits for the rest of what it takes for longer than it is.
            raise DisconnectedError("nothing comes") from error
        at, self._network.left = self._network.left, self._network.left - len(data)
        if 0 <= at < len(data):
            data[at] ^= 1 << at % 8
        return bytes(data)


def test_a_bit_that_changes_on_the_way() -> None:
    """Wherever it is, the node goes on or says in its own words why not; its log stays one that can be opened."""
    log, chosen, ends = operations()[:60], random.Random(16), Counter[str]()
    for _ in range(60):
        group, storage = group_of(log), MemoryStorage()
        config = config_of(group, timeout_s=1.0)
        node = JoinedNode(storage, config, Flipping(WholeGroup(group, CopyServer({})), chosen.randrange(9000)))
        node.start()
        deadline = time.monotonic() + PATIENCE_S
        while node.failure is None and not node.await_vlsn(60, 0.02):
            assert time.monotonic() < deadline, node.problem
        node.stop()
        assert node.failure is None or isinstance(node.failure, JetoolError)
        ends[type(node.failure).__name__] += 1
        if storage.names():
            env = opened(storage)
            check_index(env)
            env.close()
    assert ends["PeerError"] > 2
    assert ends["NoneType"] > 5
