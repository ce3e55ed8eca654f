"""Masters of a group of JE 25.3, on log version 26: what they send, to nodes of which release, and what is durable."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest

from engine.format.codecs import encode_body
from engine.format.entry.ln import BEFORE_IMAGE, LN, TOMBSTONE
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import COMMIT, DEL_IMAGE, DEL_LN_TX, INS_LN_TX, NAME_LNS, UPD_IMAGE, UPD_LN_TX
from engine.rep.acks import AckPolicy, GroupGate
from engine.rep.client.connection import SocketNetwork
from engine.rep.master.feeder_entries import outgoing
from engine.rep.member.config import JoinConfig
from engine.rep.member.node import JoinedNode
from engine.rep.status import Role
from engine.rep.stream import raw_at
from engine.rep.wire import feeder as f
from engine.rep.wire.entries import WireEntry, same_entry
from engine.storage.memory import MemoryStorage
from engine.vlsn.index import VLSNIndex
from tests.rep.master.leaders import PlayedReplica, leading
from tests.rep.member.test_later_versions import operations, shared
from tests.support.environments.workload import SMALL
from tests.support.groups.nodes import QUICK, free_ports, gate_of
from tests.support.groups.playing import described, opened
from tests.support.waiting import PATIENCE_S, eventually

LATEST = replace(SMALL, log_version=26)


@pytest.mark.parametrize("stream", [12, 16, 17, 18, 19, 21, 22, 25, 26])
def test_entries_mean_the_same_in_every_form(stream: int) -> None:
    for entry in operations():
        sent = outgoing(*entry[:3], entry.body, stream)
        assert same_entry(sent, entry)
        assert sent.log_version <= stream
        if stream == 26 and entry.type_number not in NAME_LNS:
            assert shared(sent.record()) == shared(entry.record())


@pytest.mark.parametrize(("kind", "plain", "data"), [(UPD_IMAGE, UPD_LN_TX, b"new"), (DEL_IMAGE, DEL_LN_TX, None)])
@pytest.mark.parametrize("stored", [0, 0x08])
def test_operations_with_before_images(kind: int, plain: int, data: bytes | None, stored: int) -> None:
    """A replica of an earlier release gets the plain operation; one of JE 25 gets all that nodes share."""
    whole = next(record for entry in operations() if isinstance(record := entry.record(), LN)
                 and entry.type_number == INS_LN_TX)._replace(
        flags=stored, flags2=TOMBSTONE | BEFORE_IMAGE, data=data, abort_data=b"old" if stored else None,
        modification_time=1_700_000_000_000, creation_time=7, expiration=0, tail=20_000,
    )  # fmt: skip
    body = encode_body(kind, 26, whole)
    latest = outgoing(9, kind, 26, body, 26)
    assert (latest.type_number, shared(latest.record())) == (kind, shared(whole))
    for stream, marks in ((25, TOMBSTONE | BEFORE_IMAGE), (24, TOMBSTONE), (19, TOMBSTONE), (18, 0), (17, 0), (16, 0)):
        sent = outgoing(9, kind, 26, body, stream)
        record = sent.record()
        assert isinstance(record, LN)
        assert (sent.type_number, sent.log_version) == (kind if stream >= 25 else plain, stream)
        assert (record.flags2, record.data, record.key) == (marks, data, whole.key)


@contextmanager
def following(master: JoinedNode, name: str, version: int | None, storage: MemoryStorage) -> Iterator[JoinedNode]:
    """A member with a log of this version, or in an empty directory."""
    if version is not None:
        opened(storage, log_version=version).close()
    config = JoinConfig(
        name, free_ports(1)[0], (master.config.listen,), "ELECTABLE", environment=SMALL, intervals=QUICK
    )
    node = JoinedNode(storage, config, SocketNetwork())
    node.start()
    try:
        eventually(lambda: node.role is Role.REPLICA or node.failure is not None)
        assert node.failure is None, node.failure
        yield node
    finally:
        node.stop()


def test_members_of_three_releases() -> None:
    """All have the records; only the log of the master's version has its times and its term."""
    before = int(time.time() * 1000)
    storages = {26: MemoryStorage(), 20: MemoryStorage(), 17: MemoryStorage()}
    with leading(environment=LATEST) as master, ExitStack() as stack:
        nodes = [
            stack.enter_context(following(master, f"n{version}", None if version == 26 else version, storage))
            for version, storage in storages.items()
        ]
        with master.environment.create_database("t") as db:
            for at in range(30):
                db.put(b"%d" % at, b"x" * at * 7)
            db.put(b"3", b"later")
            db.delete(b"4")
        last = master.stream_range().last
        assert all(node.await_vlsn(last, PATIENCE_S) for node in nodes)
        engine = master.environment.engine
        log = [raw_at(engine, vlsn) for vlsn in range(1, last + 1)]
        theirs = described(master.environment)
        releases = {record.name: record.je_version for record in master.facts().members.nodes}  # type: ignore[union-attr]
    assert releases == {"n1": "25.3.17", "n26": "25.3.17", "n20": "20.1.0", "n17": "18.3.20"}
    for version, storage in storages.items():
        with opened(storage) as env:
            assert described(env) == theirs
            assert env.engine.log_version == version
            for raw in log:
                mine = raw_at(env.engine, raw.vlsn)
                assert (mine.type_number, mine.version) == (raw.type_number, version)
                if version == 26 and raw.type_number not in NAME_LNS:
                    one, other = (WireEntry(raw.vlsn, raw.type_number, 26, entry.body) for entry in (mine, raw))
                    assert shared(one.record()) == shared(other.record())
    sent = [WireEntry(raw.vlsn, raw.type_number, 26, raw.body).record() for raw in log]
    terms = [record.master_term for record in sent if isinstance(record, TxnEnd)]
    assert terms == sorted(terms)
    assert before <= terms[-1] <= int(time.time() * 1000)


def test_what_is_durable_is_what_replicas_have_synced() -> None:
    """An acknowledgement lets a commit return; in this protocol the DTVLSN waits for the position that is synced."""
    with leading(environment=LATEST, policy=AckPolicy.NONE) as node:
        begin = node.stream_range().last
        # The term began with an entry of its own.
        assert raw_at(node.environment.engine, begin).type_number == COMMIT
        replica = PlayedReplica(node.config.listen, "n2", log_version=26)
        assert replica.version == 14
        replica.start()
        with node.environment.create_database("t") as db:
            db.put(b"1", b"one")
        replica.read_to(node.stream_range().last)
        gate, end = gate_of(node), node.stream_range().last
        durable = gate.dtvlsn
        assert durable < end

        def answer(synced: int) -> None:
            replica.send(f.HeartbeatResponse(syncup_vlsn=-1, txn_end_vlsn=end, id=0, durable_vlsn=synced, sent_ms=1))

        answer(-1)
        eventually(lambda: node.status().replicas[0].acked_vlsn >= end)
        assert gate.dtvlsn == durable
        answer(end)
        eventually(lambda: gate.dtvlsn == end)
        beats = [beat.id or 0 for beat in replica.beats]
        assert beats[0] == 0
        assert beats == sorted(set(beats))
        replica.close()


def test_nothing_of_earlier_terms_becomes_durable_by_itself() -> None:
    """A later term on another node could still take it back; an entry of this term settles it."""
    with leading(environment=LATEST) as node:
        index = node.environment.engine.vlsn_index
        assert isinstance(index, VLSNIndex)
        last = index.range.last
        gate = GroupGate(index, 1, AckPolicy.SIMPLE_MAJORITY, 1.0, 3, inherited=last - 1)
        gate.electable = 3
        gate.connected("n2")
        gate.acked("n2", last - 1)
        assert gate.dtvlsn == 3
        gate.acked("n2", last)
        assert gate.dtvlsn == last
