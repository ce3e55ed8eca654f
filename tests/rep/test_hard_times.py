"""What goes wrong beside the stream: a dying connection, a full table of files, a bug, a slow disk."""

from __future__ import annotations

import errno
import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from engine.errors import DamageError, FormatError, JetoolError, RefusedError
from engine.events import SILENT
from engine.format.entry_types import COMMIT
from engine.rep import messages, replica, service_dispatcher
from engine.rep import stream as rep_stream
from engine.rep.acks import AckPolicy, GroupGate, InsufficientReplicasError
from engine.rep.frames import Channel, DisconnectedError, Frame, PeerError
from engine.rep.handshake import NO_UUID, Identity, Purpose, call
from engine.rep.messages import Message
from engine.rep.node import RepNode
from engine.rep.operator import ask_status
from engine.rep.replay import Replay
from engine.rep.replica import JoinLimits, ReplicaSession, SessionEnd
from engine.rep.settings import Role
from engine.rep.stream import StreamEntry, entry_at
from engine.storage.memory import MemoryStorage
from tests.db.workload import Workload, contents
from tests.rep.nodes import SECRET, config_of, eventually, free_ports, started
from tests.rep.streams import check_index, open_alone, open_replicated
from tests.rep.test_nodes import put_alone, without_first_files
from tests.support.faulty_storage import Effect, FaultyStorage, Rule
from tests.tools import needs

ME = Identity("GROUP", NO_UUID, "stranger", "127.0.0.1", 1)


@pytest.mark.parametrize("part", ["receive_files", "install_files"])
def test_a_restore_that_is_cut_off_begins_again(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    addresses = free_ports(2)
    source = MemoryStorage()
    workload = Workload(3)
    with open_alone(source) as env:
        workload.start(env)
        workload.run(env, 60)
    without_first_files(source)
    master = started(source, config_of(0, addresses, master=True))
    assert master.await_role(Role.MASTER, 10)
    real, calls = getattr(replica, part), []

    def cut_off(*arguments: Any) -> Any:
        calls.append(part)
        if len(calls) == 1:
            raise DisconnectedError("the cable was pulled")
        return real(*arguments)

    monkeypatch.setattr(replica, part, cut_off)
    node = started(MemoryStorage(), config_of(1, addresses, restore=True))
    try:
        assert node.await_role(Role.REPLICA, 10), node.failure or node.problem
        assert len(calls) == 2
        assert contents(node.environment) == contents(master.environment)
    finally:
        node.stop()
        master.stop()


def test_a_node_listens_on_when_a_call_cannot_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of open files is full for a moment; a caller is gone before it is greeted."""
    (listen, _) = addresses = free_ports(2)
    node = started(MemoryStorage(), config_of(0, addresses, master=True))
    assert node.await_role(Role.MASTER, 10)
    real, failing = Channel, [OSError(errno.EINVAL, "Invalid argument")]

    def gone(sock: socket.socket, peer: str) -> Channel:
        if failing:
            raise failing.pop()
        return real(sock, peer)

    monkeypatch.setattr(service_dispatcher, "Channel", gone)
    accept, full = socket.socket.accept, [OSError(errno.EMFILE, "Too many open files")]

    def accept_or_not(self: socket.socket) -> Any:
        taken = accept(self)
        if full:
            taken[0].close()
            raise full.pop()
        return taken

    monkeypatch.setattr(socket.socket, "accept", accept_or_not)
    for _ in range(3):
        try:
            assert ask_status(listen, SECRET).role == "master"
            break
        except DisconnectedError:
            continue
    else:
        pytest.fail("the node is deaf")
    assert not failing
    assert not full
    node.stop()


def test_a_bug_stops_the_node_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(self: RepNode) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(RepNode, "_be_replica", bug)
    node = started(MemoryStorage(), config_of(0, free_ports(1)))
    assert node.await_end(5)
    assert isinstance(node.failure, ValueError)
    node.stop()


def test_a_node_on_ipv6() -> None:
    needs("IPv6")
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        address = ("::1", server.getsockname()[1])
    node = started(MemoryStorage(), config_of(0, [address], master=True))
    assert node.await_role(Role.MASTER, 10)
    assert ask_status(address, SECRET).master == f"[::1]:{address[1]}"
    node.stop()
    with pytest.raises(DisconnectedError, match=r"^\[::1\]:"):
        ask_status(address, SECRET)


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "nul\0"])
def test_a_name_that_no_host_can_have(host: str) -> None:
    """From the command line, or as the master that a peer names."""
    with pytest.raises(DisconnectedError, match="cannot be reached"):
        call((host, 1), ME, Purpose.STATUS, SECRET, 1)


def test_an_answer_in_syncup_that_does_not_decode() -> None:
    """It is the peer's fault, so the next peer is called; the node does not stop."""
    with open_alone(MemoryStorage()) as env:
        Workload(1).start(env)
        index = env.engine.vlsn_index
        assert index is not None
        reply = messages.encode_entry(StreamEntry(index.range.last_sync, COMMIT, b"\x01"))
        peer: Any = SimpleNamespace(
            peer="db1:5001", send=lambda *_: None, receive=lambda _: Frame(Message.ENTRY, reply)
        )
        session = ReplicaSession(env, peer, JoinLimits(10, False, 1), SILENT)
        with pytest.raises(PeerError, match="makes no sense"):
            session.sync_up()


def test_a_master_that_hangs_up_behind_its_last_word() -> None:
    """It is no master any more once it has said PROMOTE: nobody would lead if that were not heard."""

    def hung_up(*_: object) -> None:
        raise DisconnectedError("db1:5001 has closed the connection")

    with open_alone(MemoryStorage()) as env:
        Workload(1).start(env)
        peer: Any = SimpleNamespace(
            peer="db1:5001", send=hung_up, has_frame=lambda: False, receive=lambda _: Frame(Message.PROMOTE, b"")
        )
        session = ReplicaSession(env, peer, JoinLimits(10, False, 1), SILENT)
        session.replay = Replay(env.engine)
        assert session.follow(lambda: False) is SessionEnd.PROMOTED


def test_an_entry_of_this_log_that_does_not_decode_is_damage_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The master must not blame the replica that has asked for it."""

    def broken(*_: object) -> StreamEntry:
        raise FormatError("a body that makes no sense")

    with open_alone(MemoryStorage()) as env:
        Workload(1).start(env)
        monkeypatch.setattr(rep_stream, "to_stream", broken)
        with pytest.raises(DamageError, match="malformed at 0x0/"):
            entry_at(env.engine, 3)


def test_entries_are_decoded_one_by_one() -> None:
    """A frame of a hundred million empty entries must not become as many objects."""
    found = messages.decode_entries(messages.encode_vlsn(1) + bytes(64 << 20))
    assert next(found) == StreamEntry(1, 0, b"")
    assert next(found).vlsn == 2


def gate_of_three() -> GroupGate:
    with open_alone(MemoryStorage()) as env:
        assert env.engine.vlsn_index is not None
        gate = GroupGate(env.engine.vlsn_index, 1, AckPolicy.SIMPLE_MAJORITY, 0.05)
    gate.electable = 3
    gate.connected("node2")
    return gate


def test_no_transfer_while_a_commit_does_not_get_on() -> None:
    """It would be logged after what the new master has, and be lost."""
    gate = gate_of_three()
    gate.committing()
    with pytest.raises(RefusedError, match="a commit is still being written") as caught:
        gate.hold(0.05)
    assert caught.value.consequence == "this node is still the master"


def test_a_commit_that_a_transfer_holds_up_says_so() -> None:
    gate = gate_of_three()
    gate.hold(1)
    with pytest.raises(InsufficientReplicasError, match="another node is to become the master"):
        gate.committing()
    gate.go_on()
    gate.committing()


def test_a_failed_transfer_lets_commits_go_on() -> None:
    addresses = free_ports(2)
    master = started(MemoryStorage(), config_of(0, addresses, master=True))
    other = started(MemoryStorage(), config_of(1, addresses))
    try:
        assert other.await_role(Role.REPLICA, 10)
        eventually(lambda: master._term is not None and "node2" in master._term._feeders)
        assert master._term is not None
        gate = master._term.gate
        eventually(lambda: gate.progress().get("node2", (False, 0))[0])
        gate.committing()
        with pytest.raises(RefusedError, match="a commit is still being written"):
            master.transfer("node2", 0.05)
        done = threading.Thread(target=gate.committing)
        done.start()
        done.join(2)
        assert not done.is_alive()
        assert master.role is Role.MASTER
    finally:
        other.stop()
        master.stop()


def stopped_by(node: RepNode) -> JetoolError:
    """What has stopped a node by itself; stopping it then changes nothing more."""
    assert node.await_end(10), node.problem
    failure = node.failure
    assert isinstance(failure, JetoolError)
    node.stop()
    return failure


@pytest.mark.parametrize(("full", "nth"), [("restore/*", 1), ("restore/*", 5), ("7fffffff.jdb", 1)])
def test_a_disk_that_is_full_when_files_are_restored(full: str, nth: int) -> None:
    """The node stops, and its own log is as it was; with room it begins again."""
    addresses = free_ports(2)
    source, target = MemoryStorage(), MemoryStorage()
    with open_alone(source) as env:
        workload = Workload(3)
        workload.start(env)
        workload.run(env, 60)
    without_first_files(source)
    master = started(source, config_of(0, addresses, master=True))
    assert master.await_role(Role.MASTER, 10)
    joining = config_of(1, addresses, restore=True)
    failure = stopped_by(started(FaultyStorage(target, [Rule("write", Effect.SHORTEN, nth, full)]), joining))
    assert (failure.kind, failure.exit_code) == ("storage", 7)
    assert not [name for name in target.names() if name.startswith("replaced")]
    assert target.stat("00000000.jdb") is not None
    again = started(target, joining)
    assert again.await_role(Role.REPLICA, 10), again.failure or again.problem
    assert contents(again.environment) == contents(master.environment)
    again.stop()
    master.stop()


@pytest.mark.parametrize("operation", ["write", "truncate"])
def test_a_disk_that_is_full_in_a_hard_recovery(operation: str) -> None:
    """What is cut off is copied first; without room for that nothing is cut, and nothing is lost."""
    addresses = free_ports(2)
    storages = [MemoryStorage(), MemoryStorage()]
    with open_alone(storages[0]) as env:
        env.create_database("t").close()
    nodes = [started(s, config_of(n, addresses, master=n == 0)) for n, s in enumerate(storages)]
    assert nodes[1].await_vlsn(nodes[0].status().last_vlsn, 10)
    nodes[1].lead()
    assert nodes[1].await_role(Role.MASTER, 10)
    put_alone(nodes[0], 3)
    nodes[0].environment.engine.crash()
    nodes[0].stop()
    path = "*.bad" if operation == "write" else "*.jdb"
    rules = [Rule(operation, Effect.FAIL, nth=0, path=path)]
    failure = stopped_by(started(FaultyStorage(storages[0], rules), config_of(0, addresses)))
    assert (failure.kind, failure.exit_code) == ("storage", 7)
    with open_replicated(storages[0]) as env:
        with env.open_database("t") as db:
            assert db.get(b"lost") == b"x"
        check_index(env)
    again = started(storages[0], config_of(0, addresses))
    assert again.await_role(Role.REPLICA, 10), again.failure or again.problem
    assert contents(again.environment) == contents(nodes[1].environment)
    again.stop()
    nodes[1].stop()
