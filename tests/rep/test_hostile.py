"""Peers that must not be believed: refused clearly, nothing lost, memory bounded."""

from __future__ import annotations

import contextlib
import os
import random
import select
import socket
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from struct import pack

import pytest

from engine.errors import FormatError, JetoolError, UsageError
from engine.format.bytecursor import ByteWriter
from engine.rep import handshake, messages, service_dispatcher
from engine.rep.frames import Channel, DisconnectedError, PeerError
from engine.rep.handshake import NO_UUID, Answerer, Identity, NotMasterError, Purpose, call
from engine.rep.messages import Message, NodeStatus, ReplicaProgress
from engine.rep.node import RepNode
from engine.rep.replay import Replay
from engine.rep.settings import Role
from engine.rep.stream import StreamEntry, StreamReader
from engine.storage.memory import MemoryStorage
from tests.db.workload import Workload, contents
from tests.rep.nodes import SECRET, Address, config_of, eventually, free_ports, group_of, started
from tests.rep.streams import check_index, open_alone, open_replicated
from tests.rep.test_nodes import put
from tests.support.faulty_storage import Effect, FaultyStorage, Rule

ME = Identity("GROUP", NO_UUID, "stranger", "127.0.0.1", 1)


@pytest.fixture(scope="module")
def master() -> Iterator[RepNode]:
    addresses = free_ports(2)
    node = started(MemoryStorage(), config_of(0, addresses, master=True))
    assert node.await_role(Role.MASTER, 10)
    node.environment.create_database("t").close()
    yield node
    put(node, b"still alive")
    node.stop()
    with open_replicated(node._storage) as env:
        check_index(env)


def refused(address: Address, identity: Identity = ME, secret: bytes = SECRET) -> tuple[str, str]:
    """What a caller is told, and what it shall do next."""
    with pytest.raises(PeerError) as caught:
        call(address, identity, Purpose.FEED, secret, 5)
    assert caught.value.exit_code == 3
    assert caught.value.consequence == "nothing was changed"
    return str(caught.value.found), str(caught.value.hint)


def test_a_wrong_secret(master: RepNode) -> None:
    found, hint = refused(master.config.listen, secret=b"x" * 20)
    assert found == "the shared secret is not the right one"
    assert "--secret-file" in hint


def test_a_wrong_group(master: RepNode) -> None:
    found, hint = refused(master.config.listen, ME._replace(group="OTHER"))
    assert found == "this is group 'GROUP', not 'OTHER'"
    assert "jetool group show" in hint


def test_another_group_of_the_same_name(master: RepNode) -> None:
    found, hint = refused(master.config.listen, ME._replace(uuid=bytes(range(16))))
    assert found == "this is another group of the name 'GROUP': its UUID differs"
    assert "empty directory" in hint


def test_a_name_that_is_taken(master: RepNode) -> None:
    found, hint = refused(master.config.listen, ME._replace(node="node1"))
    assert "already" in found
    assert "--node" in hint


@pytest.mark.parametrize("name", ["", "x" * 300, "$$GROUP_KEY$$"])
def test_an_impossible_name(master: RepNode, name: str) -> None:
    channel = call(master.config.listen, ME._replace(node=name), Purpose.FEED, SECRET, 5)
    frame = channel.receive(5)
    assert frame.type == Message.FAILED
    assert "name of a node" in messages.decode_text(frame.payload)
    channel.close()


def test_another_protocol_version(master: RepNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "_encode_hello", lambda hello: ByteWriter().i16(2).u8(1).getvalue())
    found, hint = refused(master.config.listen)
    assert found == "protocol version 2 is not spoken here, but 1"
    assert "same version" in hint


@pytest.mark.parametrize("skew_ms", [-5_000, 5_000, -7_200_000, 86_400_000, 1 << 60])
def test_a_clock_that_is_wrong(master: RepNode, monkeypatch: pytest.MonkeyPatch, skew_ms: int) -> None:
    encode, now = handshake._encode_hello, int(time.time() * 1000)
    monkeypatch.setattr(handshake, "_encode_hello", lambda h: encode(h._replace(clock_ms=now + skew_ms)))
    found, hint = refused(master.config.listen)
    assert found.startswith("the clocks differ by")
    assert "set the clocks" in hint


def test_a_purpose_that_does_not_exist(master: RepNode, monkeypatch: pytest.MonkeyPatch) -> None:
    encode = handshake._encode_hello
    monkeypatch.setattr(handshake, "_encode_hello", lambda hello: encode(hello._replace(purpose=77)))
    assert "purpose 77" in refused(master.config.listen)[0]


def test_a_secret_must_be_long() -> None:
    with pytest.raises(UsageError, match="too short"):
        RepNode(MemoryStorage(), replace(config_of(0, free_ports(2)), secret=b"short\n"))


def test_a_replica_that_is_called_names_the_master() -> None:
    with group_of(2) as nodes:
        with pytest.raises(NotMasterError) as caught:
            call(nodes[1].config.listen, ME, Purpose.FEED, SECRET, 5)
        assert caught.value.master == nodes[0].config.listen


def test_a_stranger_cannot_pose_as_the_master() -> None:
    """Who answers has to prove that it knows the secret too."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        caller = socket.create_connection(server.getsockname())
        sock, _ = server.accept()
        ours, theirs = Channel(caller, "them"), Channel(sock, "us")
        theirs.send(2, (1).to_bytes(2, "big") + bytes(32))
        theirs.send(4, bytes(32))
        with pytest.raises(PeerError, match="does not know the shared secret"):
            handshake._prove(ours, ME, Purpose.FEED, SECRET)
        ours.close()
        theirs.close()


def connected(address: Address) -> socket.socket:
    return socket.create_connection(address, 5)


def ended(sock: socket.socket) -> bool:
    """Whether the other side hangs up, whatever it says before."""
    sock.settimeout(5)
    try:
        while sock.recv(4096):
            pass
    except ConnectionError:
        pass
    sock.close()
    return True


@pytest.mark.parametrize("length", [4097, 1 << 20, (1 << 32) - 1])
def test_a_length_that_is_too_large_before_the_proof(master: RepNode, length: int) -> None:
    sock = connected(master.config.listen)
    sock.sendall(pack(">IB", length, 1) + b"x" * 100)
    assert ended(sock)


def test_random_bytes_instead_of_a_greeting(master: RepNode) -> None:
    seeded = random.Random(1)
    for _ in range(60):
        sock = connected(master.config.listen)
        length = seeded.choice((0, 1, 5, 30, 70, 200, 4096))
        body = seeded.randbytes(length)
        sock.sendall(pack(">IB", length, seeded.randrange(6)) + body + seeded.randbytes(seeded.randrange(9)))
        sock.shutdown(socket.SHUT_WR)
        assert ended(sock)
    assert master.role is Role.MASTER


def test_every_cut_and_many_flips_of_a_greeting(master: RepNode) -> None:
    hello = handshake._encode_hello(handshake.Hello(1, 1, ME, int(time.time() * 1000))) + os.urandom(32)
    seeded = random.Random(2)
    for cut in range(0, len(hello), 3):
        changed = bytearray(hello)
        changed[seeded.randrange(len(changed))] ^= 1 << seeded.randrange(8)
        for body in (hello[:cut], bytes(changed)):
            sock = connected(master.config.listen)
            sock.sendall(pack(">IB", len(body), 1) + body)
            sock.shutdown(socket.SHUT_WR)
            assert ended(sock)


def trusted(master: RepNode, number: int = 0) -> Channel:
    identity = ME._replace(node=f"fuzz{number}", port=1000 + number)
    return call(master.config.listen, identity, Purpose.STATUS, SECRET, 5)


@pytest.mark.parametrize("change", [{"_send_key": b"another key" * 3}, {"_sent": 7}])
def test_frames_that_were_changed_on_the_way(master: RepNode, change: dict[str, object]) -> None:
    """Another key, or a frame out of turn."""
    channel = trusted(master)
    for name, value in change.items():
        setattr(channel, name, value)
    channel.send(Message.STATUS)
    with pytest.raises(DisconnectedError):
        channel.receive(5)
    channel.close()


def test_nonsense_from_one_who_knows_the_secret() -> None:
    """A replica with a bug: random messages at every stage of a feeding session."""
    addresses = free_ports(2)
    node = started(MemoryStorage(), config_of(0, addresses, master=True))
    assert node.await_role(Role.MASTER, 10)
    seeded = random.Random(3)
    for _ in range(40):
        channel = call(addresses[0], ME._replace(node="buggy"), Purpose.FEED, SECRET, 5)
        try:
            if seeded.random() < 0.5:
                channel.send(Message.START, messages.encode_vlsn(seeded.choice((1, 3, 0, -1, 10**9))))
            for _ in range(3):
                kind = seeded.choice((*Message, 0, 1, 255))
                if kind != Message.RESTORE:
                    channel.send(kind, seeded.randbytes(seeded.choice((0, 1, 8, 9, 20))))
            while True:
                channel.receive(5)
        except (PeerError, DisconnectedError):
            channel.close()
    assert node.role is Role.MASTER
    assert all(replica.acked_vlsn <= node.status().last_vlsn for replica in node.status().replicas)
    node.stop()


def decode_all(payload: bytes) -> list[StreamEntry]:
    return list(messages.decode_entries(payload))


def test_decoders_of_messages_refuse_every_cut_and_flip() -> None:
    status = NodeStatus("G", "n", "master", "h:1", 1, 9, 9, 9, 8, (ReplicaProgress("r", True, 9),))
    samples = [
        (messages.decode_vlsn, messages.encode_vlsn(7)), (messages.decode_ask, messages.encode_vlsn(7, 1)),
        (decode_all, messages.encode_entries([StreamEntry(5, 17, b"abc"), StreamEntry(6, 33, b"")])),
        (messages.decode_entry, messages.encode_entry(StreamEntry(5, 17, b"abc"))),
        (messages.decode_heartbeat, messages.encode_heartbeat(messages.Heartbeat(1, 2, 3))),
        (messages.decode_file, messages.encode_file("00000000.jdb", 9)),
        (messages.decode_transfer, messages.encode_transfer("n", force=True, timeout_s=5)),
        (messages.decode_status, messages.encode_status(status)),
    ]  # fmt: skip
    assert messages.decode_status(samples[-1][1]) == status
    assert decode_all(samples[2][1]) == [StreamEntry(5, 17, b"abc"), StreamEntry(6, 33, b"")]
    seeded = random.Random(4)
    for decode, payload in samples:
        for cut in range(len(payload)):
            flipped = bytearray(payload)
            flipped[seeded.randrange(len(payload))] ^= 1 << seeded.randrange(8)
            for body in (payload[:cut], bytes(flipped), payload + b"x"):
                try:
                    decode(body)
                except FormatError:
                    continue


def test_text_of_a_peer_is_made_harmless() -> None:
    assert messages.decode_text(b"bad\x1b[2J\nnews\xff") == "bad?[2J?news\ufffd"


def test_a_replica_whose_disk_is_full() -> None:
    """It stops with the error; the master goes on without it; with room again it catches up."""
    addresses = free_ports(3)
    inner = MemoryStorage()
    rules: list[Rule] = []
    full = FaultyStorage(inner, rules)
    nodes = [
        started(MemoryStorage(), config_of(0, addresses, master=True)),
        started(full, config_of(1, addresses)),
        started(MemoryStorage(), config_of(2, addresses)),
    ]
    assert nodes[0].await_role(Role.MASTER, 10)
    nodes[0].environment.create_database("t").close()
    for node in nodes[1:]:
        assert node.await_vlsn(nodes[0].status().last_vlsn, 10)
    rules.append(Rule("write", Effect.SHORTEN, nth=0))
    for i in range(30):
        put(nodes[0], b"%d" % i, b"x" * 200)
    assert nodes[1].await_end(10)
    assert isinstance(nodes[1].failure, JetoolError)
    assert nodes[1].failure.exit_code == 7
    eventually(lambda: not nodes[0].status().replicas[0].connected)
    rules.clear()
    nodes[1].stop()
    nodes[1] = started(inner, config_of(1, addresses))
    assert nodes[1].await_vlsn(nodes[0].status().last_vlsn, 10), nodes[1].failure
    assert contents(nodes[1].environment) == contents(nodes[0].environment)
    check_index(nodes[1].environment)
    for node in nodes:
        node.stop()


def test_who_says_nothing_is_forgotten(master: RepNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_dispatcher, "_PROOF_S", 0.1)
    sock = connected(master.config.listen)
    sock.sendall(b"\0\0")
    assert ended(sock)
    eventually(lambda: not master._reception.admission.connections)


def test_idle_sockets_do_not_shut_members_out(master: RepNode) -> None:
    """Eighty callers that say nothing, renewed as they are ended: every member's call goes through, at once."""
    idle = [connected(master.config.listen) for _ in range(80)]
    eventually(lambda: len(master._reception.admission.connections) <= service_dispatcher._MOST_UNPROVED_OF_AN_ADDRESS)
    try:
        for turn in range(39):
            idle.append(connected(master.config.listen))
            began = time.monotonic()
            channel = call(master.config.listen, ME._replace(node=f"idle{turn}"), Purpose.STATUS, SECRET, 5)
            channel.send(Message.STATUS)
            assert channel.receive(5).type == Message.STATUS
            assert time.monotonic() - began < service_dispatcher._PROOF_S
            channel.close()
    finally:
        for sock in idle:
            sock.close()


def test_a_proof_that_comes_byte_by_byte_is_not_awaited(master: RepNode) -> None:
    """Each byte in time, the whole not: the deadline is for all of it."""
    sock = connected(master.config.listen)
    began = time.monotonic()
    with contextlib.suppress(OSError):
        for _ in range(200):
            sock.sendall(b"\0")
            time.sleep(0.05)
            if sock in select.select([sock], [], [], 0)[0] and not sock.recv(1):
                break
    assert time.monotonic() - began < 2 * service_dispatcher._PROOF_S
    sock.close()


def test_operators_leave_places_for_members() -> None:
    admission = service_dispatcher.Admission()
    pairs = [_pair() for _ in range(service_dispatcher._MOST_OPERATORS + 2)]
    channels = [Channel(one, f"peer {number}") for number, (one, _) in enumerate(pairs)]
    for number, channel in enumerate(channels):
        admission.come(channel, f"address {number}")
        member = number == len(channels) - 1
        assert admission.prove(channel, member=member) == (member or number < service_dispatcher._MOST_OPERATORS)
    admission.leave(channels[0])
    admission.come(channels[0], "again")
    assert admission.prove(channels[0], member=False)
    for one, two in pairs:
        one.close()
        two.close()


def test_an_answerer_that_hears_nothing_gives_up() -> None:
    one, two = _pair()
    channel = Channel(one, "silent")
    with pytest.raises(DisconnectedError):
        Answerer(channel, SECRET).listen(0.05)
    channel.close()
    two.close()


def _pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        caller = socket.create_connection(server.getsockname())
        return server.accept()[0], caller


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
                        replay.apply(wrong)
                    except JetoolError:
                        outcomes[False] += 1
                    else:
                        outcomes[True] += 1
                        break
                replay.apply(entry)
        except JetoolError:
            outcomes[False] += 1
        check_index(replica)
        replica.engine.crash()
        with open_replicated(replica.engine.storage) as replica:
            check_index(replica)
    assert min(outcomes[False], outcomes[True]) > 8, outcomes
