"""Records read and written through running nodes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.errors import FormatError, JetoolError, NotFoundError, RefusedError
from engine.rep import records, remote
from engine.rep.client.call import Call
from engine.rep.client.connection import SocketNetwork
from engine.rep.member.node import JoinedNode
from engine.rep.peers import DisconnectedError
from engine.rep.records import (
    DeleteRequest,
    GetRequest,
    NotMasterError,
    PutRequest,
    RecordKind,
    Refusal,
    WriteReceipt,
)
from engine.rep.remote import UnknownOutcomeError, delete_record, get_record, put_record
from engine.rep.wire.records import RECORDS, VERSION, RecordAnswer, RecordRequest
from engine.storage.memory import MemoryStorage
from tests.support.environments.workload import contents
from tests.support.groups.nodes import gate_of, group_of_two, has_replica, waiting_for
from tests.support.waiting import PATIENCE_S, eventually

NOWHERE = ("127.0.0.1", 1)
NETWORK = SocketNetwork()
Pair = tuple[JoinedNode, JoinedNode]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with group_of_two() as nodes:
        env = nodes[0].environment
        env.create_database("t").close()
        env.create_database("tags", DatabaseOptions(duplicates=True)).close()
        yield nodes


def written(nodes: Pair, key: bytes, data: bytes, *, to: int = 0, name: str = "t") -> remote.RemoteWrite:
    return put_record(NETWORK, nodes[to].config.listen, PutRequest(name, key, data, True), PATIENCE_S)


def test_written_through_either_node_and_read_from_both(pair: Pair) -> None:
    master, replica = (node.config.listen for node in pair)
    for to in (0, 1):
        done = written(pair, b"k", b"through %d" % to, to=to)
        assert done.master == master
        assert done.written == WriteReceipt(pair[0].status().last_vlsn, 1)
        for address in (master, replica):
            assert get_record(
                NETWORK, address, GetRequest("t", b"k", done.written.vlsn, PATIENCE_S * 1000), PATIENCE_S
            ) == [b"through %d" % to]
    done = delete_record(NETWORK, replica, DeleteRequest("t", b"k", None), PATIENCE_S)
    assert done.written.records == 1
    with pytest.raises(NotFoundError, match="no record with key 0x6b in database 't'"):
        get_record(NETWORK, replica, GetRequest("t", b"k", done.written.vlsn, PATIENCE_S * 1000), PATIENCE_S)


def test_duplicates(pair: Pair) -> None:
    address = pair[0].config.listen
    for item in (b"blue", b"red", b"green"):
        written(pair, b"car", item, name="tags")
    written(pair, b"card", b"x", name="tags")
    assert get_record(NETWORK, address, GetRequest("tags", b"car", 0, 0), PATIENCE_S) == [b"blue", b"green", b"red"]
    assert delete_record(NETWORK, address, DeleteRequest("tags", b"car", b"red"), PATIENCE_S).written.records == 1
    assert delete_record(NETWORK, address, DeleteRequest("tags", b"car", None), PATIENCE_S).written.records == 2
    assert contents(pair[0].environment)["tags"] == {(b"card", b"x"): b"x"}


def test_what_is_refused_changes_nothing(pair: Pair) -> None:
    address = pair[0].config.listen
    written(pair, b"there", b"1")
    last = pair[0].status().last_vlsn
    with pytest.raises(RefusedError, match="there is a record of this key") as caught:
        put_record(NETWORK, address, PutRequest("t", b"there", b"2", False), PATIENCE_S)
    assert caught.value.exit_code == 3
    for name, key in (("nope", b"k"), ("t", b"nope")):
        with pytest.raises(NotFoundError):
            delete_record(NETWORK, address, DeleteRequest(name, key, None), PATIENCE_S)
        with pytest.raises(NotFoundError):
            get_record(NETWORK, address, GetRequest(name, key, 0, 0), PATIENCE_S)
    with pytest.raises(NotFoundError, match=r"no database .nope.: the node has t, tags$") as missing:
        put_record(NETWORK, address, PutRequest("nope", b"k", b"", True), PATIENCE_S)
    assert missing.value.hint == "check --db; --create creates the database"
    with pytest.raises(RefusedError, match="has not replayed VLSN 99999 yet"):
        get_record(NETWORK, pair[1].config.listen, GetRequest("t", b"there", 99_999, 50), PATIENCE_S)
    with pytest.raises(DisconnectedError, match="cannot be reached"):
        put_record(NETWORK, NOWHERE, PutRequest("t", b"k", b"", True), PATIENCE_S)
    assert contents(pair[0].environment)["t"][b"there"] == b"1"
    # An abort of what had written nothing is no entry of the stream.
    assert pair[0].status().last_vlsn == last
    assert not [txn for txn in pair[0].environment.engine.txns.registered if txn < 0]


def test_a_write_without_acknowledgements_may_stand(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 7, not 3: nothing is known of what comes of it."""
    monkeypatch.setattr(gate_of(pair[0]), "acked", lambda *_: None)
    with (
        waiting_for(pair[0], 0.1),
        pytest.raises(UnknownOutcomeError, match="was not acknowledged by enough replicas") as caught,
    ):
        written(pair, b"perhaps", b"x")
    assert caught.value.exit_code == 7
    assert contents(pair[0].environment)["t"][b"perhaps"] == b"x"


@pytest.mark.parametrize("delete", [False, True])
def test_what_fails_after_the_commit_is_no_refusal(pair: Pair, monkeypatch: pytest.MonkeyPatch, delete: bool) -> None:
    """Exit code 3 says that nothing was changed."""
    written(pair, b"after", b"x")

    def failing() -> None:
        raise RefusedError("the environment is closed")

    # Only what follows the commit of a write: replay does not come here.
    monkeypatch.setattr(pair[0].environment.engine, "after_write", failing)
    node = pair[0].config.listen
    with pytest.raises(JetoolError, match="the write was committed, and then the node failed") as caught:
        _ = (
            delete_record(NETWORK, node, DeleteRequest("t", b"after", None), PATIENCE_S)
            if delete
            else written(pair, b"after", b"y")
        )
    assert caught.value.exit_code == 7
    monkeypatch.undo()
    assert contents(pair[0].environment)["t"].get(b"after") == (None if delete else b"y")


def test_an_answer_that_makes_no_sense_is_no_refusal(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    receive = Call.receive

    def garbled(self: Call, table: Any, version: int, *kinds: Any) -> Any:
        answer = receive(self, table, version, *kinds)
        return RecordAnswer(kind=RecordKind.RECORDS, payload=answer.payload) if table is RECORDS else answer

    monkeypatch.setattr(Call, "receive", garbled)
    with pytest.raises(UnknownOutcomeError, match="whether it was committed is not known"):
        written(pair, b"garbled", b"x")
    assert contents(pair[0].environment)["t"][b"garbled"] == b"x"


def test_a_connection_that_is_lost_before_the_answer(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    receive = Call.receive

    def lost(self: Call, table: Any, version: int, *kinds: Any) -> Any:
        answer = receive(self, table, version, *kinds)
        if table is RECORDS:
            raise DisconnectedError("the cable was pulled")
        return answer

    monkeypatch.setattr(Call, "receive", lost)
    with pytest.raises(UnknownOutcomeError, match="whether it was committed is not known"):
        written(pair, b"cable", b"x")
    with pytest.raises(DisconnectedError, match="the cable was pulled"):
        get_record(NETWORK, pair[0].config.listen, GetRequest("t", b"cable", 0, 0), PATIENCE_S)
    assert contents(pair[0].environment)["t"][b"cable"] == b"x"


def test_too_few_replicas() -> None:
    with group_of_two() as nodes:
        nodes[0].environment.create_database("t").close()
        nodes[1].stop()
        eventually(lambda: not has_replica(nodes[0]))
        with waiting_for(nodes[0], 0.1), pytest.raises(RefusedError, match="too few replicas") as caught:
            written(nodes, b"k", b"x")
        assert (caught.value.exit_code, caught.value.consequence) == (3, "nothing was changed")
        assert caught.value.expected is not None
        assert contents(nodes[0].environment) == {"t": {}}
        assert not [txn for txn in nodes[0].environment.engine.txns.registered if txn < 0]


def test_a_replica_that_knows_no_master() -> None:
    storage = MemoryStorage()
    with group_of_two(storage=storage) as (master, replica):
        master.environment.create_database("t").close()
        assert replica.await_vlsn(master.status().last_vlsn, PATIENCE_S)
    again = JoinedNode(storage, replica.config, NETWORK)
    again.start()
    try:
        with pytest.raises(NotMasterError, match="it knows none"):
            written((again, again), b"k", b"x")
        with pytest.raises(NotFoundError):
            get_record(NETWORK, again.config.listen, GetRequest("t", b"k", 0, 0), PATIENCE_S)
    finally:
        again.stop()


@pytest.mark.parametrize("kind", [RecordKind.PUT, RecordKind.DELETE, RecordKind.GET])
def test_a_request_that_makes_no_sense_is_answered(pair: Pair, kind: RecordKind) -> None:
    for payload in (b"", b"\xff" * 40, records.encode_put(PutRequest("t", b"k", b"x", True))[:-1] + b"\0\0\0"):
        with Call(NETWORK, pair[0].config.listen, RECORDS.service, PATIENCE_S) as call:
            call.send(RECORDS, VERSION, RecordRequest(kind=kind, payload=payload))
            assert call.receive(RECORDS, VERSION, RecordAnswer).kind == RecordKind.REFUSAL


def test_the_text_of_a_refusal_is_made_harmless() -> None:
    refusal = Refusal(3, "kind", "bad\x1b[2J\nnews", "", "", "", "")
    assert records.decode_refusal(records.encode_refusal(refusal)).what == "bad?[2J?news"


def test_decoders_refuse_every_cut_and_flip() -> None:
    refusal = Refusal(3, "kind", "what", "expected", "found", "consequence", "hint")
    samples = [
        (records.decode_put, records.encode_put(PutRequest("t", b"key", b"data", True))),
        (records.decode_delete, records.encode_delete(DeleteRequest("t", b"key", b"item"))),
        (records.decode_delete, records.encode_delete(DeleteRequest("t", b"key", None))),
        (records.decode_get, records.encode_get(GetRequest("t", b"key", 7, 100))),
        (records.decode_written, records.encode_written(WriteReceipt(7, 1))),
        (records.decode_records, records.encode_records([b"a", b"", b"c" * 300])),
        (records.decode_refusal, records.encode_refusal(refusal)),
    ]  # fmt: skip
    assert [decode(payload) for decode, payload in samples] == [
        PutRequest("t", b"key", b"data", True), DeleteRequest("t", b"key", b"item"), DeleteRequest("t", b"key", None),
        GetRequest("t", b"key", 7, 100), WriteReceipt(7, 1), [b"a", b"", b"c" * 300], refusal,
    ]  # fmt: skip
    seeded = random.Random(5)
    for decode, payload in samples:
        for cut in range(len(payload)):
            with pytest.raises(FormatError):
                decode(payload[:cut])
            flipped = bytearray(payload)
            flipped[cut] ^= 1 << seeded.randrange(8)
            try:
                decode(bytes(flipped))
            except FormatError:
                continue
