"""A master of a group of JE feeds replicas: what it sends to those that were recorded is what JE sent."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.db.environment import Environment
from engine.errors import JetoolError, UnsupportedError
from engine.format.codecs import encode_body
from engine.format.entry.group_db import GROUP_KEY, decode_group, decode_group_node
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import NameOperation
from engine.format.entry.rollback import Matchpoint
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import COMMIT, MATCHPOINT, type_name
from engine.format.tuples import string_key
from engine.rep.acks import AckPolicy, InsufficientAcksError, InsufficientReplicasError
from engine.rep.client.connection import Address, Connection, SocketNetwork
from engine.rep.client.handshake import NodeIdentity, join
from engine.rep.master.feeder_entries import outgoing
from engine.rep.master.term import LeadConfig, Leadership
from engine.rep.peers import DisconnectedError, PeerError
from engine.rep.replay import Replay, StreamRecord
from engine.rep.reset import reset_group
from engine.rep.stream import raw_at
from engine.rep.wire import feeder as f
from engine.rep.wire.entries import WireEntry, same_entry
from engine.storage.memory import MemoryStorage
from tests.rep.master import leaders
from tests.rep.master.leaders import ELECTABLE, EXTERNAL, PlayedReplica, follower, leading
from tests.rep.services.scripted import ScriptedConnection, port_of, recorded, said
from tests.support.groups.group_double import recorded_entries
from tests.support.groups.nodes import QUICK, waiting_for
from tests.support.groups.playing import followed, group_of, opened, operations
from tests.support.groups.recordings import HOME, Piece
from tests.support.waiting import PATIENCE_S, eventually

N1 = ("localhost", 15010)


@contextmanager
def term_of(log: list[WireEntry], listen: tuple[str, int] = N1) -> Iterator[tuple[Environment, Leadership]]:
    """A master whose log a recorded one wrote, and its term."""
    storage = MemoryStorage()
    followed(group_of(log), storage)
    env = opened(storage)
    term = Leadership(env, "n1", listen, LeadConfig(), intervals=QUICK)
    try:
        yield env, term
    finally:
        term.close("over")
        env.close()


def shape(what: object) -> object:
    """A message without clocks, nor what a group or member is told by them or by chance."""
    if isinstance(what, f.SNTPResponse | f.Heartbeat):
        return type(what)
    if isinstance(what, f.NodeGroupInfoOK):
        return what.node
    if isinstance(what, f.Commit | f.Entry | f.AlternateMatchpoint):
        return type(what), getattr(what, "needs_ack", None), shape(what.entry)
    if not isinstance(what, WireEntry):
        return what
    record: Any = what.record()
    if isinstance(record, TxnEnd):
        record = record._replace(time=0)
    elif isinstance(record, LN):
        data: Any = record.data
        if record.db_id == -257 and record.data is not None:
            if record.key == string_key(GROUP_KEY):
                data = decode_group(record.data)._replace(uuid_high=0, uuid_low=0)
            else:
                data = decode_group_node(record.data)._replace(barrier_time=0)
        # Places in the log of one node, where the entry came as it stands there.
        record = record.flags & ~0x22, record.db_id, record.txn_id, record.key, data, record.content, record.tail
    return what[:3], record


def ended(entry: WireEntry) -> TxnEnd:
    """The end of a transaction."""
    record = entry.record()
    assert isinstance(record, TxnEnd)
    return record


def test_an_electable_node_is_made_a_member_and_fed() -> None:
    """The recorded node, message for message: handshake, syncup, the two commits that make it a member."""
    recording, theirs = recorded(HOME / "join-electable" / "003-Feeder-n1.jsonl")
    log = list(recorded_entries("join-electable/003-Feeder-n1.jsonl"))
    with term_of(log[:19]) as (_, term):
        ends: list[bytes] = []

        def waits(sent: bytes) -> bytes:
            """The replica goes when it has what it is to have."""
            deadline = time.monotonic() + PATIENCE_S
            while len(ends) < 1 and time.monotonic() < deadline:
                if len(connection.sent) > 200 and term.gate.progress().get("n2", (False, 0))[0]:
                    time.sleep(0.1)
                    ends.append(sent)
            return b""

        until = recording.sent(client=True)
        asked = until[: until.index(b"\x66\x00\x0c\x00\x00\x00") + 18]
        connection = ScriptedConnection(asked, 7, waits)
        port_of(lambda: term.services).serve(connection, "n2")
        mine = said(recording._replace(pieces=[Piece(True, asked, ""), Piece(False, connection.sent, "")]))
        member = term.known("n2")
    assert member is not None
    assert (member.id, member.quorum_ack, member.je_version) == (2, True, "18.3.20")
    assert [shape(one.what) for one in mine if not _later(one.what)] == [
        shape(one.what) for one in theirs if not _later(one.what)
    ]


def _later(what: object) -> bool:
    """After the member was made, its application wrote; heartbeats come by the clock."""
    return isinstance(what, f.Heartbeat) or (isinstance(what, f.Entry | f.Commit) and what.entry.vlsn > 24)


def test_a_new_group_begins_as_one_of_je() -> None:
    theirs = recorded_entries("database-operations/003-Feeder-n1.jsonl.gz")[:11]
    with leading(listen=("localhost", 15120)) as node:
        engine = node.environment.engine
        assert engine.stream_range.last == 11
        raws = [raw_at(engine, vlsn) for vlsn in range(1, 12)]
        mine = [outgoing(raw.vlsn, raw.type_number, raw.version, raw.body, 16) for raw in raws]
    assert [shape(one) for one in mine] == [shape(one) for one in theirs]


@pytest.mark.parametrize("stream", [12, 15, 16])
def test_entries_mean_the_same_in_every_form(stream: int) -> None:
    log = operations()
    with term_of(log, ("localhost", 15120)) as (env, _):
        engine = env.engine
        for entry in log:
            raw = raw_at(engine, entry.vlsn)
            sent = outgoing(raw.vlsn, raw.type_number, raw.version, raw.body, stream)
            assert same_entry(sent, entry)
            assert sent.log_version <= max(stream, entry.log_version)
            if stream == 16:
                assert sent.log_version == entry.log_version, type_name(entry.type_number)


def test_what_would_stop_a_replica_never_leaves() -> None:
    """By which masters of jetool begin in groups of their own, and how they renamed databases once."""
    with pytest.raises(UnsupportedError, match="replicas of JE cannot take"):
        outgoing(5, MATCHPOINT, 17, encode_body(MATCHPOINT, 17, Matchpoint(1, 1)), 16)
    removal = next(
        entry for entry in operations()
        if isinstance(record := entry.record(), LN) and isinstance(record.tail, NameOperation) and record.data is None
    )  # fmt: skip
    record = removal.record()
    assert isinstance(record, LN)
    old_name = encode_body(removal.type_number, 17, record._replace(tail=NameOperation(0, None, None)))
    with pytest.raises(UnsupportedError, match="the old name of a renamed database"):
        outgoing(5, removal.type_number, 17, old_name, 16)


def test_a_log_of_the_former_protocol_of_jetool() -> None:
    """Its masters began with a Matchpoint. The node says why nobody is fed, and the way over, which is one."""
    storage = MemoryStorage()
    with leading(storage) as node:
        listen = node.config.listen
    env = opened(storage)
    Replay(env.engine).redo(StreamRecord(12, MATCHPOINT, Matchpoint(1, 1)))
    env.close()
    with leading(storage, listen=listen, intervals=QUICK._replace(watch_s=0.05)) as node:
        replica = PlayedReplica(listen, "n2")
        replica.start()
        eventually(lambda: "an entry that replicas of JE cannot take" in str(node.problem))
        assert isinstance(node.problem, JetoolError)
        assert "jetool group reset" in str(node.problem.hint)
        assert "VLSN 12 Matchpoint" in str(node.problem.found)
        replica.close()
    env = opened(storage)
    first = reset_group(env, leaders.GROUP, "n1", *listen).first_vlsn
    env.close()
    with leading(storage, listen=listen) as node:
        replica = PlayedReplica(listen, "n2")
        replica.start(first)
        replica.read_to(first)
        replica.close()


def test_commits_wait_for_acknowledgements_and_the_dtvlsn_follows_them() -> None:
    with leading() as node:
        env = node.environment
        with env.create_database("x") as db:
            replica = follower(node)
            assert replica.id == 2
            # A majority of two: one acknowledgement, which does not come.
            with waiting_for(node, 0.3), pytest.raises(InsufficientAcksError, match="expected 1, found 0"):
                db.put(b"k", b"1")
            last = env.engine.stream_range.last
            replica.read_to(last)
            first = replica.awaited[-1]
            assert first.sync_policy == f.SYNC
            done: list[int] = []
            writer = threading.Thread(target=lambda: done.append(db.put(b"k", b"2")))
            writer.start()
            replica.read_to(last + 2)
            second = ended(replica.awaited[-1].entry)
            # Zeros at the end are none; the first one comes too late for its commit, and counts all the same.
            replica.send(f.GroupAck(txn_ids=(ended(first.entry).id, second.id, 0, 0)))
            writer.join(PATIENCE_S)
            assert done == [True]
            assert node.status().dtvlsn == replica.awaited[-1].entry.vlsn
            replica.close()
            eventually(lambda: node.feeders() == 0)
            with waiting_for(node, 0.3), pytest.raises(InsufficientReplicasError, match="nothing was committed"):
                db.put(b"k", b"3")
    ends = [ended(entry).dtvlsn for entry in replica.entries if entry.type_number == COMMIT]
    assert ends == sorted(ends)


@pytest.mark.parametrize("policy", [AckPolicy.NONE, AckPolicy.ALL])
def test_other_policies(policy: AckPolicy) -> None:
    with leading(policy=policy) as node:
        db = node.environment.create_database("x")
        one = follower(node, "n2", port=7011)
        with one.acknowledging():
            two = follower(node, "n3", port=7012)
        guest = follower(node, "copy", EXTERNAL)
        if policy is AckPolicy.NONE:
            db.put(b"k", b"1")
        else:
            # However long the one acknowledgement takes.
            for seconds in (0.3, 1, 5, PATIENCE_S):
                with one.acknowledging(), waiting_for(node, seconds), pytest.raises(InsufficientAcksError) as refused:
                    db.put(b"k", b"1")
                assert refused.value.fields()["expected"] == "2"
                if refused.value.fields()["found"] == "1":
                    break
            assert refused.value.fields()["found"] == "1"
        last = node.stream_range().last
        for replica in (one, two, guest):
            replica.read_to(last)
            asked = last in [commit.entry.vlsn for commit in replica.awaited]
            assert asked is (policy is AckPolicy.ALL and replica is not guest)
            replica.close()
        db.close()
        assert guest.id == (1 << 31) - 1


def test_an_idle_group_hears_what_is_durable() -> None:
    """A commit of nothing carries the DTVLSN, once."""
    with leading(policy=AckPolicy.NONE, intervals=QUICK._replace(stable_s=0.01)) as node:
        replica = follower(node)
        eventually(lambda: node.stream_range().last == 16)
        node.environment.create_database("x").close()
        replica.send(f.HeartbeatResponse(syncup_vlsn=-1, txn_end_vlsn=18))
        replica.read_to(19)
        nothing = ended(replica.entries[-1])
        assert (nothing.dtvlsn, nothing.last_lsn, replica.entries[-1].log_version) == (18, -1, 17)
        replica.send(f.HeartbeatResponse(syncup_vlsn=-1, txn_end_vlsn=19))
        time.sleep(0.3)
        assert node.stream_range().last == 19
        replica.close()


def test_places_are_answered_as_by_je() -> None:
    """je-ha-protocol.md 8.1."""
    with leading() as node:
        replica = PlayedReplica(node.config.listen, "copy", EXTERNAL)
        last = node.stream_range().last
        for vlsn, kind, expected in (
            (1000, f.DEFAULT, (f.AlternateMatchpoint, last)), (1000, f.AVAILABLE, (f.Entry, last)),
            (999, f.DEFAULT, (f.EntryNotFound, None)), (5, f.NOW, (f.Entry, last)), (5, f.DEFAULT, (f.Entry, 5)),
            (0, f.AVAILABLE, (f.Entry, 1)), (0, f.DEFAULT, (f.EntryNotFound, None)),
        ):  # fmt: skip
            answer = replica.ask(vlsn, kind)
            entry = getattr(answer, "entry", None)
            assert (type(answer), entry.vlsn if entry is not None else None) == expected
        replica.send(f.RestoreRequest(vlsn=3))
        said_to = replica.call.receive(f.FEEDER, replica.version, f.RestoreResponse)
        assert [one.node.name for one in said_to.providers] == ["n1"]
        replica.close()


REFUSED = [
    ("n1", ELECTABLE, "already in active use", {}),
    ("copy", EXTERNAL, "belongs to the group", {"group": "OTHER"}),
    ("copy", EXTERNAL, "different environment instances", {"uuid": (1, 2)}),
    ("n3", ELECTABLE, "conflicts with the socket", {}),
    ("n2", "SECONDARY", "Conflicting configuration", {}),
    ("a|b", EXTERNAL, "not fed", {}),
    ("mon", "MONITOR", "feeds ELECTABLE, SECONDARY, EXTERNAL and ARBITER nodes: mon is MONITOR", {}),
]


@pytest.mark.parametrize(("name", "node_type", "text", "changes"), REFUSED, ids=[one[2] for one in REFUSED])
def test_refusals(name: str, node_type: str, text: str, changes: dict[str, Any]) -> None:
    with leading() as node:
        follower(node).close()
        eventually(lambda: node.feeders() == 0)
        last = node.stream_range().last
        asked = {"group": "WIREGRP", **changes}
        with pytest.raises(PeerError) as caught:
            join(
                SocketNetwork(), node.config.listen, asked["group"], 5, force=False, uuid=asked.get("uuid", (0, 0)),
                joining=NodeIdentity(name, "localhost", 7011, node_type),
            )  # fmt: skip
        assert text in str(caught.value)
        # Nothing was written for it.
        assert node.stream_range().last == last


def test_a_name_whose_connection_lives_is_not_taken_over() -> None:
    # As if it had said something since.
    with leading(intervals=QUICK._replace(transit_s=-60.0)) as node:
        replica = follower(node, "copy", EXTERNAL)
        with pytest.raises(PeerError, match="active use"):
            PlayedReplica(node.config.listen, "copy", EXTERNAL)
        replica.close()


def test_a_name_whose_connection_is_dead_is_taken_over() -> None:
    with leading(intervals=QUICK._replace(transit_s=60.0, dead_s=0.0)) as node:
        replica = follower(node, "copy", EXTERNAL)
        again = PlayedReplica(node.config.listen, "copy", EXTERNAL)
        again.start(5)
        again.read_to(11)
        assert again.entries[0].vlsn == 5
        again.close()
        replica.close()


class CutNetwork:
    """Connections that are cut when the client has said so many things."""

    def __init__(self, most: int) -> None:
        self._most = most

    def connect(self, address: Address, deadline: float) -> Connection:
        return CutConnection(SocketNetwork().connect(address, deadline), self._most)


class CutConnection:
    """One of them."""

    def __init__(self, connection: Connection, most: int) -> None:
        self._connection = connection
        self._left = most
        self.receive, self.close = connection.receive, connection.close

    def send(self, data: bytes, deadline: float) -> None:
        self._left -= 1
        if self._left < 0:
            raise DisconnectedError("cut")
        self._connection.send(data, deadline)


def test_a_guest_that_goes_in_the_handshake_leaves_nothing() -> None:
    """It has an id by then, of which there are so many."""
    # The service, the protocol, the release and the identity; then it would ask for the time.
    network = CutNetwork(4)

    def members() -> list[str | None]:
        found = node.facts().members
        return [member.name for member in found.nodes] if found is not None else []

    with leading() as node:
        for number in range(3):
            with pytest.raises(DisconnectedError, match="cut"):
                PlayedReplica(node.config.listen, f"copy{number}", EXTERNAL, network=network)
        eventually(lambda: members() == ["n1"])
        again = PlayedReplica(node.config.listen, "copy3", EXTERNAL)
        assert (again.id, members()) == ((1 << 31) - 1, ["n1", "copy3"])
        again.close()


@cache
def _hostile_host() -> tuple[Environment, Leadership]:
    storage = MemoryStorage()
    followed(group_of(list(recorded_entries("join-electable/003-Feeder-n1.jsonl"))[:19]), storage)
    env = opened(storage)
    return env, Leadership(env, "n1", N1, LeadConfig(ack_timeout_s=0.05), intervals=QUICK)


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_whatever_a_replica_says(data: st.DataObject) -> None:
    """It is the connection that ends: with bytes of the recorded replica changed, left out, or anything after them."""
    env, term = _hostile_host()
    asked = bytearray(recorded(HOME / "join-electable" / "003-Feeder-n1.jsonl")[0].sent(client=True)[:400])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(asked) - 1))
        asked[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    connection = ScriptedConnection(bytes(asked), 60)
    port_of(lambda: term.services).serve(connection, "anybody")
    assert connection.closed
    env.engine.check_log()
    assert term.feeders == 0
