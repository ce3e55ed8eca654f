"""Hard times of a node: full disks, sockets that fail, bugs, garbage; it says what is wrong, and nothing is lost."""

from __future__ import annotations

import errno
import random
import socket
import threading
import time
from collections import Counter
from typing import Any

import pytest

from engine.errors import DamageError, FormatError, JetoolError, RefusedError, StorageError
from engine.rep import stream as rep_stream
from engine.rep.acks import AckPolicy, GroupGate, InsufficientReplicasError
from engine.rep.client.connection import SocketNetwork
from engine.rep.client.group_state import look
from engine.rep.client.master_transfer import plan_transfer, transfer_master
from engine.rep.member.master_search import Seeker
from engine.rep.member.node import JoinedNode
from engine.rep.peers import DisconnectedError
from engine.rep.replay import Replay
from engine.rep.rollback import hard_recover
from engine.rep.stream import StreamEntry, StreamReader, entry_at
from engine.storage.memory import MemoryStorage
from tests.rep.master.leaders import leading
from tests.rep.test_rollback import parted
from tests.support.damage.faulty_storage import Effect, FaultyStorage, Rule
from tests.support.environments.workload import Workload, contents
from tests.support.groups.nodes import free_ports, gate_of, group_of_two, has_replica
from tests.support.groups.pairs import join, plan_for, redo
from tests.support.groups.streams import check_index, open_alone, open_replicated
from tests.support.tools import needs
from tests.support.waiting import PATIENCE_S, eventually

NETWORK = SocketNetwork()


def test_a_node_listens_on_when_a_call_cannot_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of open files is full for a moment."""
    with leading() as node:
        accept, full = socket.socket.accept, [OSError(errno.EMFILE, "Too many open files")]

        def accept_or_not(self: socket.socket) -> Any:
            taken = accept(self)
            if full:
                error = full.pop()
                # The caller may go on at once.
                taken[0].close()
                raise error
            return taken

        monkeypatch.setattr(socket.socket, "accept", accept_or_not)
        with pytest.raises(JetoolError):
            look(NETWORK, [node.config.listen], None, PATIENCE_S)
        assert not full
        assert look(NETWORK, [node.config.listen], None, PATIENCE_S).master_address == node.config.listen


def test_a_bug_stops_the_node_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*_: object) -> None:
        raise ValueError("a bug")

    with group_of_two() as (master, replica):
        monkeypatch.setattr(Seeker, "look", bug)
        master.stop()
        assert replica.await_end(PATIENCE_S)
        assert isinstance(replica.failure, ValueError)


def test_a_node_on_ipv6() -> None:
    needs("IPv6")
    (address,) = free_ports(1, "::1")
    with leading(listen=address) as node:
        assert node.status().master == f"[::1]:{address[1]}"
        assert look(NETWORK, [address], None, PATIENCE_S).master_address == address
    with pytest.raises(DisconnectedError, match=r"^\[::1\]:"):
        NETWORK.connect(address, time.monotonic() + PATIENCE_S)


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "nul\0"])
def test_a_name_that_no_host_can_have(host: str) -> None:
    """From the command line, or as the master that a node names."""
    with pytest.raises(DisconnectedError, match="cannot be reached"):
        NETWORK.connect((host, 1), time.monotonic() + PATIENCE_S)


def test_an_entry_of_this_log_that_does_not_decode_is_damage_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The master must not blame the replica that has asked for it."""

    def broken(*_: object) -> StreamEntry:
        raise FormatError("a body that makes no sense")

    with open_alone(MemoryStorage()) as env:
        Workload(1).start(env)
        monkeypatch.setattr(rep_stream, "to_stream", broken)
        with pytest.raises(DamageError, match="malformed at 0x0/"):
            entry_at(env.engine, 3)


def gate_of_three() -> GroupGate:
    with open_alone(MemoryStorage()) as env:
        assert env.engine.vlsn_index is not None
        gate = GroupGate(env.engine.vlsn_index, 1, AckPolicy.SIMPLE_MAJORITY, 0.05, 0)
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
    with group_of_two() as (master, _):
        gate = gate_of(master)
        gate.committing()
        with pytest.raises(RefusedError, match="a commit is still being written"):
            transfer_master(NETWORK, plan_transfer(NETWORK, master.config.listen, "node2", PATIENCE_S), 1)
        done = threading.Thread(target=gate.committing)
        done.start()
        done.join(PATIENCE_S)
        assert not done.is_alive()
        assert master.status().role == "master"


def test_a_replica_whose_disk_is_full() -> None:
    """It stops with the error; the master goes on without it; with room again it catches up."""
    inner, rules = MemoryStorage(), list[Rule]()
    with group_of_two(AckPolicy.NONE, storage=FaultyStorage(inner, rules)) as (master, replica):
        with master.environment.create_database("t") as db:
            assert replica.await_vlsn(master.status().last_vlsn, PATIENCE_S)
            rules.append(Rule("write", Effect.SHORTEN, nth=0))
            for i in range(30):
                db.put(b"%d" % i, b"x" * 200)
        assert replica.await_end(PATIENCE_S)
        assert isinstance(replica.failure, JetoolError)
        assert replica.failure.exit_code == 7
        eventually(lambda: not has_replica(master))
        rules.clear()
        replica.stop()
        again = JoinedNode(inner, replica.config, NETWORK)
        again.start()
        assert again.await_vlsn(master.status().last_vlsn, PATIENCE_S), again.failure
        assert contents(again.environment) == contents(master.environment)
        check_index(again.environment)
        again.stop()


@pytest.mark.parametrize("operation", ["write", "truncate"])
def test_a_disk_that_is_full_in_a_hard_recovery(operation: str) -> None:
    """What is cut off is copied first; without room for that nothing is cut, and nothing is lost."""
    old, new, expected = parted(2, unfinished=0, commits=3)
    plan, mine, inner = plan_for(new, old), contents(old), old.engine.storage
    assert plan.matchpoint is not None
    old.engine.crash()
    rules = list[Rule]()
    old = open_replicated(FaultyStorage(inner, rules))
    rules.append(Rule(operation, Effect.FAIL, nth=0, path="*.bad" if operation == "write" else "*.jdb"))
    with pytest.raises(StorageError) as caught:
        hard_recover(old.engine, plan.matchpoint)
    assert caught.value.exit_code == 7
    with open_replicated(inner) as env:
        assert contents(env) == mine
        check_index(env)
    old, _ = join(new, open_replicated(inner))
    assert contents(old) == contents(new) == expected


def test_streams_with_flipped_bits_are_replayed_or_refused() -> None:
    """A master that sends garbage: an error of ours or another record, never a crash; the log stays sound."""
    source = open_alone(MemoryStorage())
    workload = Workload(41)
    workload.start(source)
    workload.run(source, 25)
    entries = list(StreamReader(source.engine, 1).read())
    seeded = random.Random(5)
    outcomes: Counter[bool] = Counter()
    for _ in range(25):
        replica = open_replicated(MemoryStorage())
        replay = Replay(replica.engine)
        try:
            for entry in entries:
                if seeded.random() < 0.1:
                    body = bytearray(entry.body)
                    body[seeded.randrange(len(body))] ^= 1 << seeded.randrange(8)
                    kind = entry.type_number if seeded.random() < 0.9 else seeded.randrange(60)
                    length = len(body) if seeded.random() < 0.7 else seeded.randrange(len(body))
                    wrong = StreamEntry(entry.vlsn, kind, bytes(body[:length]))
                    try:
                        redo(replay, wrong)
                    except JetoolError:
                        outcomes[False] += 1
                    else:
                        outcomes[True] += 1
                        break
                redo(replay, entry)
        except JetoolError:
            outcomes[False] += 1
        check_index(replica)
        replica.engine.crash()
        with open_replicated(replica.engine.storage) as replica:
            check_index(replica)
    assert min(outcomes[False], outcomes[True]) > 8, outcomes
