"""Codecs of JE's protocol: what is written is read again, what must not leave does not, bad bytes are refused."""

from __future__ import annotations

import dataclasses
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import FormatError
from engine.rep.wire import feeder, values
from engine.rep.wire.election_lines import ACCEPTOR, LEARNER, MasterQuery, ShutDownAgents
from engine.rep.wire.entries import WireEntry
from engine.rep.wire.feeder import FEEDER
from engine.rep.wire.group_lines import GROUP, STATE, GroupRequest, RemoveMember, StateRequest, TransferMaster
from engine.rep.wire.inbox import Inbox
from engine.rep.wire.lines import LONGEST_LINE, NO_CHECK, Envelope
from engine.rep.wire.log_file_feeder import LOG_FILES, FileListResp
from engine.rep.wire.messages import FRAME, Message, encode_frame
from engine.rep.wire.node_state import NODE_STATE, NodeStateRequest
from engine.rep.wire.services import (
    Status,
    encode_authenticate,
    encode_mechanism,
    encode_service_request,
)
from tests.rep.wire.strategies import ENVELOPES, TEXT, binary_kinds, messages, text_kinds, text_messages

KINDS = binary_kinds()
WORDS = text_kinds()
HERE = Envelope("4", "G", NO_CHECK)


@pytest.mark.parametrize("case", KINDS, ids=lambda case: f"{case[1].__name__}-{case[3]}")
def test_messages_come_back(case: Any) -> None:
    table, kind, client, version = case

    @settings(max_examples=15)
    @given(messages(kind, version))
    def comes_back(sent: Message) -> None:
        frame = encode_frame(sent, version)
        inbox = Inbox(from_client=client)
        inbox.feed(frame)
        assert inbox.message(table, version) == sent
        assert len(inbox) == 0
        if kind is not feeder.DBIdRequest:
            assert table.encode(sent, version, client=client) == frame
        # Bytes that are missing or too many are noticed.
        op, body = kind.OP, frame[FRAME.size :]
        for wrong in (body[:-1], body + b"\0") if body else (b"\0",):
            with pytest.raises(FormatError):
                table.decode(op, wrong, version, client=client)

    comes_back()


@pytest.mark.parametrize("case", WORDS, ids=lambda case: f"{case[0].service}-{case[1].__name__}")
def test_lines_come_back(case: Any) -> None:
    table, kind, client = case

    @settings(max_examples=25)
    @given(ENVELOPES, text_messages(kind))
    def comes_back(envelope: Envelope, sent: Any) -> None:
        if kind is ShutDownAgents:
            return
        line = table.encode(envelope, sent, client=client)
        inbox = Inbox(from_client=client)
        inbox.feed(line + b"rest")
        assert inbox.line(table) == (envelope, sent)
        assert inbox.raw(9) == b"rest"

    comes_back()


WORKED = [
    ("0100 10000000 09000000 04000000 6a742d31 ffffffff",
     feeder.ReplicaProtocolVersion(version=9, node=values.NameIdPair("jt-1", -1))),
    ("0400 0f000000 07000000 31382e332e3230 11000000",
     feeder.ReplicaJEVersions(je_version="18.3.20", log_version=17)),
    ("0700 50000000 07000000 54455354475250 0000000000000000 0000000000000000 04000000 6a742d31 ffffffff"
     "09000000 6c6f63616c686f7374 01000000 08000000 45585445524e414c 00 07000000 31382e332e3230",
     feeder.NodeGroupInfo(
         group="TESTGRP", uuid_high=0, uuid_low=0, node=values.NameIdPair("jt-1", -1), host="localhost", port=1,
         node_type="EXTERNAL", designated_primary=False, je_version="18.3.20")),
    ("0a00 09000000 3d4eaf03a2010000 01", feeder.SNTPRequest(originate_ms=1795358150205, is_last=True)),
    ("6b00 0c000000 0100000000000000 01000000", feeder.EntryRequest(vlsn=1, kind=feeder.AVAILABLE)),
    ("6600 0c000000 0100000000000000 00000000", feeder.StartStream(vlsn=1, filter=b"")),
    ("6800 10000000 ffffffffffffffff 2800000000000000",
     feeder.HeartbeatResponse(syncup_vlsn=-1, txn_end_vlsn=40)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sent"), WORKED, ids=lambda value: type(value).__name__)
def test_worked_bytes(text: str, sent: Message) -> None:
    """je-ha-protocol.md section 21."""
    assert FEEDER.encode(sent, 9, client=True) == bytes.fromhex(text)


NEVER = [
    (FEEDER, feeder.DBIdRequest(name="_jeRepGroupDB"), 9),
    (FEEDER, feeder.Heartbeat(time_ms=1, txn_end_vlsn=1), 9),
    (FEEDER, feeder.CacheSizeRequest(cache_bytes=1, off_heap_bytes=0), 9),
    (FEEDER, feeder.HeartbeatResponse(syncup_vlsn=-1, txn_end_vlsn=1, id=3), 9),
    (FEEDER, feeder.HeartbeatResponse(syncup_vlsn=-1), 9),
    (FEEDER, feeder.ReplicaJEVersions(je_version="eighteen", log_version=17), 9),
    (FEEDER, feeder.ReplicaProtocolVersion(version=1 << 31, node=values.NameIdPair("x", -1)), 9),
    (FEEDER, feeder.ReplicaProtocolVersion(version=9, node=values.NameIdPair("käse", -1)), 9),
    (FEEDER, feeder.ReplicaProtocolVersion(version=9, node=values.NameIdPair("a\nb", -1)), 9),
    (FEEDER, feeder.EntryRequest(vlsn=1, kind=3), 9),
    (FEEDER, feeder.EntryRequest(vlsn=1), 9),
    (FEEDER, feeder.EntryRequest(vlsn=1, kind=0), 6),
    (NODE_STATE, NodeStateRequest(node="n" * 70_000, group="G"), 1),
    (NODE_STATE, NodeStateRequest(node=None, group="G"), 1),  # type: ignore[arg-type]
    (NODE_STATE, feeder.EntryNotFound(), 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("table", "sent", "version"), NEVER, ids=lambda value: getattr(value, "service", str(value)[:40])
)
def test_what_never_leaves(table: Any, sent: Message, version: int) -> None:
    with pytest.raises(FormatError):
        table.encode(sent, version, client=True)


@pytest.mark.parametrize(
    ("table", "sent", "envelope"),
    [
        (ACCEPTOR, ShutDownAgents(), HERE),
        (LEARNER, ShutDownAgents(), HERE),
        (GROUP, MasterQuery(), HERE),
        (GROUP, RemoveMember(node="a|b"), HERE),
        (GROUP, RemoveMember(node="a\nb"), HERE),
        (GROUP, RemoveMember(node="käse"), HERE),
        (GROUP, TransferMaster(nodes=(), timeout_ms=1, force=False), HERE),
        (GROUP, GroupRequest(), HERE._replace(group="a|b")),
        (GROUP, GroupRequest(), HERE._replace(version="four")),
        (STATE, StateRequest(node="x\r\ny"), HERE),
    ],
    ids=lambda value: getattr(value, "service", str(value)[:40]),
)
def test_lines_that_never_leave(table: Any, sent: Any, envelope: Envelope) -> None:
    with pytest.raises(FormatError):
        table.encode(envelope, sent, client=True)


def test_a_message_is_checked_before_it_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """An encoder that were wrong would be noticed."""
    column = feeder.EntryRequest.COLUMNS[0]
    wrong = column._replace(value=values.Value(values.LONG.read, lambda writer, vlsn: writer.i64(vlsn + 1)))
    monkeypatch.setattr(feeder.EntryRequest, "COLUMNS", (wrong, *feeder.EntryRequest.COLUMNS[1:]))
    with pytest.raises(FormatError, match="does not survive"):
        FEEDER.encode(feeder.EntryRequest(vlsn=1, kind=0), 9, client=True)


def test_records_are_frozen() -> None:
    request = feeder.EntryRequest(vlsn=1, kind=0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        request.vlsn = 2  # type: ignore[misc]


@pytest.mark.parametrize("length", [-1, 1 << 30, (1 << 31) - 1, 200_000])
def test_a_length_is_refused_with_its_frame(length: int) -> None:
    inbox = Inbox(from_client=False)
    inbox.feed(FRAME.pack(2, length))
    with pytest.raises(FormatError, match="message 2"):
        inbox.message(FEEDER, 9)


def test_counts_alone_take_no_memory() -> None:
    body = (1 << 28).to_bytes(4, "little") + b"\0" * 64
    tracemalloc.start()
    for op in (FileListResp.OP,):
        with pytest.raises(FormatError, match="impossible count"):
            LOG_FILES.decode(op, body, 2, client=False)
    for kind in (feeder.GroupAck, feeder.RestoreResponse):
        at = 8 * (kind is feeder.RestoreResponse)
        with pytest.raises(FormatError, match="impossible count"):
            FEEDER.decode(kind.OP, b"\0" * at + body, 9, client=kind is feeder.GroupAck)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


def test_a_line_without_an_end() -> None:
    inbox = Inbox(from_client=False)
    inbox.feed(b"4|G|1|" + b"x" * LONGEST_LINE)
    with pytest.raises(FormatError, match="line of a message"):
        inbox.line(GROUP)


@given(st.sampled_from(TEXT), st.booleans(), st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_line(table: Any, client: bool, line: bytes) -> None:
    try:
        envelope, message = table.decode(line, client=client)
    except FormatError:
        return
    assert table.decode(table.encode(envelope, message, client=client), client=client) == (envelope, message)


@settings(max_examples=500)
@given(st.sampled_from(KINDS), st.binary(max_size=300))
def test_any_body(case: Any, body: bytes) -> None:
    table, kind, client, version = case
    try:
        found = table.decode(kind.OP, body, version, client=client)
    except FormatError:
        return
    assert isinstance(found, kind)


@pytest.mark.parametrize("status", Status)
def test_answers_to_a_request(status: Status) -> None:
    inbox = Inbox(from_client=False)
    assert inbox.status() is None
    inbox.feed(bytes((status,)))
    assert inbox.status() is status


def test_authentication_comes_back() -> None:
    client, server = Inbox(from_client=True), Inbox(from_client=False)
    client.feed(encode_service_request("Feeder") + encode_authenticate("SubscriptionTokenAuth,mirror"))
    assert (client.service(), client.mechanisms(), len(client)) == ("Feeder", "SubscriptionTokenAuth,mirror", 0)
    mechanism = encode_mechanism("SubscriptionTokenAuth:x")
    server.feed(mechanism[:-1])
    assert server.mechanism() is None
    server.feed(mechanism[-1:])
    assert server.mechanism() == "SubscriptionTokenAuth:x"


@pytest.mark.parametrize("data", [b"Servixe:\x06Feeder", b"Service:\0", b"Service:\x80abc", b"GET / HTTP/1.1\r\n"])
def test_what_is_no_request(data: bytes) -> None:
    inbox = Inbox(from_client=True)
    inbox.feed(data)
    with pytest.raises(FormatError):
        inbox.service()


def test_an_entry_of_no_stream() -> None:
    for entry in (WireEntry(5, 20, 17, b""), WireEntry(5, 33, 99, b""), WireEntry(0, 33, 17, b""),
                  WireEntry(5, 99, 17, b"")):  # fmt: skip
        body = encode_frame(feeder.Entry(entry=entry), 9)[FRAME.size :]
        with pytest.raises(FormatError):
            FEEDER.decode(feeder.Entry.OP, body, 9, client=False)
