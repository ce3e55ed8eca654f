"""Messages in the short form of the manifests: what an independent decoder found in the same bytes."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from engine.errors import FormatError
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import NameLN, NameOperation
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import type_name
from engine.rep.wire import election_lines as e
from engine.rep.wire import feeder as f
from engine.rep.wire import group_lines as g
from engine.rep.wire import lines
from engine.rep.wire import log_file_feeder as c
from engine.rep.wire import node_state as n
from engine.rep.wire.entries import WireEntry
from engine.rep.wire.services import Status
from engine.rep.wire.values import NameIdPair
from tests.support.groups.recordings import Played

KINDS = ("DEFAULT", "AVAILABLE", "NOW")
POLICIES = ("SYNC", "NO_SYNC", "WRITE_NO_SYNC")
# Short name of a class, and of its fields in their order; a class that is not here has its own name, and no fields.
BINARY: dict[type, tuple[str, str]] = {
    f.ReplicaProtocolVersion: ("ReplicaProtocolVersion", "version node"),
    f.FeederProtocolVersion: ("FeederProtocolVersion", "version node"),
    f.DuplicateNodeReject: ("DuplicateNodeReject", "text"),
    f.ReplicaJEVersions: ("ReplicaJEVersions", "jeVersion=je_version logVersion=log_version"),
    f.FeederJEVersions: (
        "FeederJEVersions", "jeVersion=je_version logVersion=log_version minJEVersion=min_je_version"
    ),
    f.JEVersionsReject: ("JEVersionsReject", "text"),
    f.NodeGroupInfo: (
        "NodeGroupInfo",
        "group node host port nodeType=node_type primary=designated_primary jeVersion=je_version",
    ),
    f.NodeGroupInfoOK: ("NodeGroupInfoOK", "node"),
    f.NodeGroupInfoReject: ("NodeGroupInfoReject", "text"),
    f.SNTPRequest: ("SNTPRequest", "isLast=is_last"),
    f.CacheSizeRequest: ("CacheSizeRequest", "cache=cache_bytes offHeap=off_heap_bytes"),
    f.CacheSizeResponse: ("CacheSizeResponse", "cache=cache_bytes offHeap=off_heap_bytes"),
    f.Entry: ("Entry", "entry"),
    f.StartStream: ("StartStream", "vlsn filter"),
    f.Heartbeat: ("Heartbeat", "txnEnd=txn_end_vlsn id filterVLSN=filtered_vlsn passVLSN=passed_vlsn"),
    f.HeartbeatResponse: (
        "HeartbeatResponse", "syncupVLSN=syncup_vlsn txnEnd=txn_end_vlsn id durableVLSN=durable_vlsn"
    ),
    f.Commit: ("Commit", "ack=needs_ack sync_policy entry"),
    f.Ack: ("Ack", "txnId=txn_id durableVLSN=durable_vlsn"),
    f.EntryRequest: ("EntryRequest", "vlsn kind"),
    f.AlternateMatchpoint: ("AlternateMatchpoint", "entry"),
    f.RestoreRequest: ("RestoreRequest", "vlsn"),
    f.RestoreResponse: ("RestoreResponse", "cbvlsn providers"),
    f.GroupAck: ("GroupAck", "txnIds=txn_ids durableVLSN=durable_vlsn"),
    f.ProtocolError: ("ProtocolError", "text"),
    c.ClientVersion: ("ClientVersion", "version nodeId=client_id"),
    c.ServerVersion: ("ServerVersion", "version nodeId=node_id"),
    c.FeederInfoResp: (
        "FeederInfoResp", "load first=first_vlsn last=last_vlsn logVersion=log_version jeVersion=je_version"
    ),
    c.FileListResp: ("FileListResp", "names"),
    c.FileReq: ("FileReq", "name"),
    c.FileStart: ("FileStart", "name length"),
    c.FileEnd: ("FileEnd", "name length"),
    c.FileInfoReq: ("FileInfoReq", "name digest=with_digest"),
    c.FileInfoResp: ("FileInfoResp", "name length"),
    c.ThreadCount: ("ThreadCount", "threads=count"),
    n.NodeStateRequest: ("NodeStateRequest", "node group"),
    n.NodeStateResponse: (
        "NodeStateResponse",
        "node group master jeVersion=je_version state commitVLSN=commit_vlsn masterCommitVLSN=master_commit_vlsn "
        "feeders logVersion=log_version appState=app_state",
    ),
    n.NodeStateError: ("ProtocolError", "text"),
}  # fmt: skip
TEXT: dict[type, str] = {
    e.Accept: "value", e.AcceptReply: "value", e.Result: "value", e.MasterAnswer: "value",
    e.Promise: (
        "accepted suggestion majorRanking=major_ranking priority logVersion=log_version jeVersion=je_version "
        "minorRanking=minor_ranking nodeId=node_id masterTerm=term"
    ),
    g.GroupResponse: "records=members", g.EnsureNode: "hexNode=node", g.EnsureNodeResponse: "name id",
    g.RemoveMember: "node", g.DeleteMember: "node", g.UpdateAddress: "node host port",
    g.TransferMaster: "names=nodes timeout=timeout_ms force", g.TransferMasterResponse: "winner",
    g.GroupFailure: "text reason", g.StateRequest: "node", g.StateResponse: "node master state",
    g.GroupChange: "node change records=members", g.JoinedGroup: "node master", g.LeftGroup: "node master reason",
    lines.ProtocolErrorReply: "errorType=problem text",
}  # fmt: skip


def short(played: list[Played]) -> list[str]:
    """The messages of a connection as its manifest has them."""
    forms: list[str] = []
    missing = counted = 0
    for client, what, _, _ in played:
        if isinstance(what, bytes):
            counted += len(what)
            missing -= len(what)
            if not missing:
                forms.append(f"s FileBytes count={counted}")
            continue
        if isinstance(what, c.FileStart):
            missing, counted = what.length, 0
        forms.append(f"{'c' if client else 's'} {_form(what)}")
    grouped = [(form, len(list(same))) for form, same in groupby(forms)]
    return [form if count == 1 else f"{form} x{count}" for form, count in grouped]


def _form(what: Any) -> str:
    if isinstance(what, Status):
        return f"Status status={what.name}"
    if isinstance(what, str):
        return f"end how={what}" if what in ("fin", "rst") else f"Service service={what}"
    if isinstance(what, FormatError):
        return "malformed"
    if isinstance(what, tuple):
        envelope, message = what
        head = f"{message.OP} version={envelope.version} group={envelope.group} sender={envelope.sender}"
        return " ".join((head, *_fields(message, TEXT.get(type(message), ""))))
    name, fields = BINARY.get(type(what), (type(what).__name__, ""))
    return " ".join((f"{what.OP} {name}", *_fields(what, fields)))


def _fields(message: Any, fields: str) -> list[str]:
    parts = []
    for item in fields.split():
        shown, _, name = item.partition("=")
        value = getattr(message, name or shown)
        if value is None and shown not in ("accepted", "majorRanking"):
            continue
        parts += [_value(shown, value)]
    return parts


def _value(shown: str, value: Any) -> str:
    if isinstance(value, WireEntry):
        return _entry(value)
    text = str(value)
    if shown == "sync_policy":
        return POLICIES[value]
    if shown == "ack":
        text = str(int(value))
    elif shown == "kind":
        text = KINDS[value]
    elif shown == "node" and isinstance(value, NameIdPair):
        return f"name={value.name} id={value.id}"
    elif shown == "providers":
        text = ",".join(f"{one.node.name}:{one.node.id}" for one in value)
    elif shown == "records":
        text = ",".join((str(value.group.name), *(f"{node.name}:{node.id}" for node in value.nodes)))
    elif shown == "hexNode":
        text = f"{value.name}:{value.id}"
    elif isinstance(value, e.Suggestion):
        text = f"{value.host}:{value.port}/{value.node}/{value.id}"
    elif value is None:
        text = ""
    elif isinstance(value, bytes):
        text = value.hex()
    elif isinstance(value, tuple):
        text = ",".join(map(str, value))
    elif shown == "force":
        text = text.lower()
    elif shown == "text" and len(text) > 60:
        text = text[:60] + "..."
    return f"{shown}={text}"


def _entry(entry: WireEntry) -> str:
    record = entry.record()
    head = f"vlsn={entry.vlsn} {type_name(entry.type_number)}/{entry.log_version}"
    if isinstance(record, TxnEnd):
        durable = f" dtvlsn={record.dtvlsn}" if entry.log_version >= 13 else ""
        return f"{head} txn={record.id} master={record.master_id}{durable}"
    assert isinstance(record, LN)
    if isinstance(record.content, NameLN):
        assert isinstance(record.tail, NameOperation)
        operation = f"op={record.tail.operation} id={record.content.db_id}"
        return f"{head} db={record.db_id} {record.key.decode()} {operation} txn={record.txn_id}"
    data = "none" if record.data is None else str(len(record.data))
    return f"{head} db={record.db_id} txn={record.txn_id} key={record.key[:24].hex()} data={data}"
