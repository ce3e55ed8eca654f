"""Looking at a group: against nodes of 18.3 and 25.3 as they were recorded, and against what can go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.errors import NotFoundError, RefusedError, UnsupportedError
from engine.rep.client import group_state
from engine.rep.client.call import AnswerError, Call, ServiceError, ask
from engine.rep.client.group_state import answers, look, state_of
from engine.rep.client.handshake import check_release, clock_difference, new_name
from engine.rep.peers import PeerError
from engine.rep.wire.election_lines import LEARNER, MasterQuery
from engine.rep.wire.group_lines import GROUP, GroupRequest, GroupResponse
from engine.rep.wire.lines import Envelope, TextMessage
from engine.rep.wire.services import Status
from tests.support.groups.networks import FaultyNetwork, RecordedNetwork

PORTS = {"services": 15070, "services-25": 15270}
RUNNING = "text lines of the script"
CRASHED = "n1 and n3 crash"


@pytest.mark.parametrize("scenario", PORTS)
def test_a_group_without_its_master(scenario: str) -> None:
    """n1 and n3 are gone: n2 still names its old master and is not sure."""
    port = PORTS[scenario]
    found = look(RecordedNetwork(scenario, CRASHED), [("localhost", port + 1)], "WIREGRP", 5)
    assert (found.group, found.master, found.masters) == ("WIREGRP", None, ())
    states = {node.name: (node.state, node.said is not None and node.said.master) for node in found.nodes}
    assert states == {"n1": (None, False), "n2": ("UNKNOWN", "n1"), "n3": (None, False)}
    one, two, three = found.nodes
    assert two.said is not None
    assert (two.said.je_version, two.said.log_version) == (("25.3.17", 26) if "25" in scenario else ("18.3.20", 17))
    assert two.load is not None
    assert two.load > 0
    assert found.lag(two) == 0
    assert found.lag(one) is None
    assert one.problem
    assert three.problem
    assert [node.member.id for node in found.nodes if node.member] == [1, 2, 3]


def test_a_group_that_runs() -> None:
    """18.3: the script asked for lines, DbPing for states, in one life of the group."""
    network = RecordedNetwork("services")
    found = look(network, [("localhost", 15071)], None, 5)
    assert found.group == "WIREGRP"
    # The last answers that were recorded of each.
    assert {node.name: node.state for node in found.nodes}["n1"] == "MASTER"
    assert found.master == "n1"
    assert all(connection.closed for connection in network.opened)


def test_nodes_that_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the address of an external node nobody listens, and a monitor has no state: neither is missed."""
    network = RecordedNetwork("services", CRASHED)
    answer = ask(network, ("localhost", 15071), GROUP, "WIREGRP", GroupRequest(), 5)
    assert answer is not None
    assert isinstance(answer[1], GroupResponse)
    members = answer[1].members
    silent = [members.nodes[0]._replace(name=name, id=9, type=kind) for name, kind in (("mon", 0), ("ext", 4))]
    changed = members._replace(nodes=(members.nodes[1], *silent))

    def asked(*words: Any) -> tuple[Envelope, TextMessage] | None:
        """What is asked for the group says so."""
        said = ask(*words)
        is_group = said is not None and isinstance(said[1], GroupResponse)
        return (said[0], GroupResponse(members=changed)) if said is not None and is_group else said

    monkeypatch.setattr(group_state, "ask", asked)
    found = look(network, [("localhost", 15071)], "WIREGRP", 5)
    assert [(node.name, node.state, node.problem, answers(node)) for node in found.nodes] == [
        ("n2", "UNKNOWN", "", True), ("ext", None, "", True), ("mon", None, "", True),
    ]  # fmt: skip


def test_the_name_of_the_group_comes_from_the_node() -> None:
    network = RecordedNetwork("services", RUNNING)
    group, state = state_of(network, ("localhost", 15071), None, 5)
    assert (group, state.node, state.master, state.state) == ("WIREGRP", "n2", "n1", "REPLICA")


@pytest.mark.parametrize("scenario", PORTS)
def test_lower_versions_of_the_protocol(scenario: str) -> None:
    """A node of 25.3 answers in 4; one that wants a lower version than is spoken here is asked again in its own."""
    network = RecordedNetwork(scenario, RUNNING)
    answer = ask(network, ("localhost", PORTS[scenario]), GROUP, "WIREGRP", GroupRequest(), 5)
    assert answer is not None
    assert answer[0].version == "4"
    assert isinstance(answer[1], GroupResponse)


def test_a_higher_version_than_the_node_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GROUP, "version", "9")
    network = RecordedNetwork("services", RUNNING)
    answer = ask(network, ("localhost", 15070), GROUP, "WIREGRP", GroupRequest(), 5)
    assert answer is not None
    assert answer[0].version == "4"
    assert [connection.sent.removeprefix(b"Service:\5Group") for connection in network.opened] == [
        b"9|WIREGRP|-2147483648|GREQ\n", b"4|WIREGRP|-2147483648|GREQ\n"
    ]  # fmt: skip


def test_requests_are_those_of_je() -> None:
    """ReplicationGroupAdmin and DbPing of 18.3 sent exactly these bytes."""
    network = RecordedNetwork("services", "JE ", same=bytes)
    assert ask(network, ("localhost", 15070), GROUP, "WIREGRP", GroupRequest(), 5) is not None
    assert ask(network, ("localhost", 15071), LEARNER, "WIREGRP", MasterQuery(), 5) is not None


def test_no_answer_to_a_question() -> None:
    """A Learner that knows no master closes without a line."""
    network = RecordedNetwork("services", CRASHED)
    assert ask(network, ("localhost", 15071), LEARNER, "WIREGRP", MasterQuery(), 5) is None


def test_a_wrong_group() -> None:
    with pytest.raises(AnswerError, match="Group name mismatch"):
        look(RecordedNetwork("services", RUNNING), [("localhost", 15071)], "?", 5)


def test_nobody_is_there() -> None:
    with pytest.raises(NotFoundError, match="no node answers"):
        look(RecordedNetwork("services"), [("localhost", 1), ("localhost", 2)], None, 5)


class Both:
    """The nodes of two scenarios."""

    def __init__(self) -> None:
        self._networks = [RecordedNetwork(scenario, CRASHED) for scenario in PORTS]

    def connect(self, address: tuple[str, int], deadline: float) -> object:
        return self._networks[address[1] >= 15200].connect(address, deadline)


def test_several_groups_of_one_name_are_one() -> None:
    """Nodes are told apart by the names of their groups, as JE does."""
    found = look(Both(), [("localhost", 15071), ("localhost", 15271)], "WIREGRP", 5)  # type: ignore[arg-type]
    assert found.group == "WIREGRP"


def test_groups_of_different_names(monkeypatch: pytest.MonkeyPatch) -> None:
    first = state_of(RecordedNetwork("services", CRASHED), ("localhost", 15071), "WIREGRP", 5)
    names = iter(["A", "B"])
    monkeypatch.setattr("engine.rep.client.group_state.state_of", lambda *_: (next(names), first[1]))
    with pytest.raises(RefusedError, match="different groups"):
        look(Both(), [("localhost", 15071), ("localhost", 15271)], None, 5)  # type: ignore[arg-type]


def test_a_service_that_is_not_there() -> None:
    with pytest.raises(ServiceError, match="does not have the service") as caught:
        Call(RecordedNetwork("services"), ("localhost", 15070), "NoSuchService", 5)
    assert caught.value.status is Status.UNKNOWN_SERVICE


def looked_at(spoil: Callable[[bytes], bytes | None]) -> bool:
    """Whether n2 could be looked at; any error but those that say what is wrong ends the test."""
    network = FaultyNetwork(RecordedNetwork("services", CRASHED), spoil)
    try:
        found = look(network, [("localhost", 15071)], "WIREGRP", 5)
    except (NotFoundError, PeerError):
        return False
    assert found.group == "WIREGRP"
    return True


def test_connections_that_end_anywhere() -> None:
    def cut_after(length: int) -> Callable[[bytes], bytes | None]:
        return lambda came: came if len(came) <= length else None

    seen = [looked_at(cut_after(length)) for length in range(600)]
    assert 0 < sum(seen) < len(seen)


def test_bytes_that_are_changed_anywhere() -> None:
    def at(place: int) -> Callable[[bytes], bytes]:
        return lambda came: came[:place] + bytes(byte ^ 0x15 for byte in came[place : place + 1]) + came[place + 1 :]

    seen = [looked_at(at(place)) for place in range(500)]
    assert 0 < sum(seen) < len(seen)


@pytest.mark.parametrize(
    ("release", "refused"),
    [("7.3.8", False), ("18.3.20", False), ("25.3.17", False), ("18.3.20.doris", False), ("7.2.9", True),
     ("26.1.0", True), ("5.0.104", True), ("", True), ("x", True)],
)  # fmt: skip
def test_releases(release: str, refused: bool) -> None:
    if refused:
        with pytest.raises(UnsupportedError, match="never tried"):
            check_release(release, "there", force=False)
    else:
        check_release(release, "there", force=False)
    check_release(release, "there", force=True)


def test_names_of_clients_are_unique_and_plain() -> None:
    names = {new_name() for _ in range(50)}
    assert len(names) == 50
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") for name in names)


def test_a_replica_has_no_feeder() -> None:
    with pytest.raises(ServiceError, match="does not have the service"):
        clock_difference(RecordedNetwork("rejects"), ("localhost", rejecting_port()), "WIREGRP", 5, force=False)


def rejecting_port() -> int:
    """The replica of ``rejects`` that was asked for a Feeder."""
    from tests.support.groups.recordings import HOME, files, read

    for path in files():
        recording = read(path)
        if path.parent == HOME / "rejects" and recording.sent(client=False)[:1] == b"\3":
            return int(recording.meta["port"])
    raise AssertionError("none was recorded")
