"""What ends a node that joins, each with its message and exit code (je-ha-protocol.md 7, 10.6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from engine.errors import JetoolError
from engine.format.entry_types import COMMIT
from engine.rep.wire import feeder as f
from engine.rep.wire.messages import Message
from engine.storage.memory import MemoryStorage
from tests.rep.client.copy_server import CopyServer
from tests.rep.joined.playing import failure_of, followed, group_of, joined, operations


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.rep.joined.node._FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr("engine.rep.joined.node._LONGEST_PAUSE_S", 0.002)
    monkeypatch.setattr("engine.rep.joined.node._NAME_PATIENCE_S", 0.05)


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


def test_nobody_is_there() -> None:
    group = group_of(operations()[:20], down={"n1"})
    error = failure_of(group, MemoryStorage())
    assert isinstance(error, JetoolError)
    assert (error.exit_code, "no node answers" in str(error)) == (4, True)


def test_a_group_of_another_identity() -> None:
    """Of another name than the environment's, and of the same name with another UUID."""
    storage = MemoryStorage()
    followed(group_of(operations()[:20]), storage)
    error = failure_of(group_of(operations()), storage, group="OTHER")
    assert "is of another group" in str(error)
    assert "another uuid" in str(failure_of(group_of(operations(), uuid=(5, 6)), storage))


def test_a_later_log_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an entry, and of files that would have to be copied; a stream of version 17 can be followed all the same."""
    log = operations()
    later = [*log[:20], log[20]._replace(log_version=26)]
    error = failure_of(group_of(later), MemoryStorage())
    assert isinstance(error, JetoolError)
    assert (error.exit_code, "a later log version" in str(error)) == (5, True)
    monkeypatch.setattr("engine.rep.joined.node._MOST_REPLAYED", 10)
    followed(group_of(log, log_version=26, je_version="25.3.17"), MemoryStorage())
    error = failure_of(group_of(log[30:], log_version=26, je_version="25.3.17"), MemoryStorage(), CopyServer({}))
    assert isinstance(error, JetoolError)
    assert (error.exit_code, "log version 17" in str(error)) == (5, True)


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda log: log[:30] + log[31:], "VLSN 31 has to come next"),
        (lambda log: [*log[:30], log[30]._replace(body=log[30].body[:3])], "makes no sense"),
        (lambda log: [*log[:30], log[29]._replace(vlsn=31, type_number=18)], "no entry of transaction"),
    ],
)
def test_a_stream_that_makes_no_sense(spoil: Any, text: str) -> None:
    """A gap, a torn body, the end of a transaction that nobody has begun: the node stops, and keeps what it had."""
    log = operations()
    assert log[29].type_number == COMMIT
    group = group_of(spoil(log))
    storage = MemoryStorage()
    with joined(group, storage) as node:
        assert node.await_end(20)
        assert node.status().last_vlsn == 30
    assert text in str(node.failure)
