"""Messages of every class, with any values that may travel."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from engine.format.entry.group_db import GroupNode, RepGroup
from engine.rep.wire import (
    election_lines,
    feeder,
    group_lines,
    lines,
    log_file_feeder,
    node_state,
    record_blocks,
    records,
    values,
)
from engine.rep.wire.entries import WireEntry
from engine.rep.wire.lines import Envelope, LineTable, TextMessage
from engine.rep.wire.messages import Message, Table

BINARY = (feeder.FEEDER, log_file_feeder.LOG_FILES, node_state.NODE_STATE, records.RECORDS, record_blocks.RECORD_BLOCKS)
TEXT = (
    election_lines.ACCEPTOR, election_lines.LEARNER, group_lines.GROUP, group_lines.STATE, group_lines.MONITOR,
)  # fmt: skip
VERSIONS = {
    "Feeder": (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14), "LogFileFeeder": (2, 3, 4), "BinaryNodeState": (1,),
    "JetoolRecords": (1,), "LDiff": (2,),
}  # fmt: skip

PRINTABLE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=20)
FIELD = PRINTABLE.filter(lambda text: "|" not in text)
I32 = st.integers(-(1 << 31), (1 << 31) - 1)
I64 = st.integers(-(1 << 63), (1 << 63) - 1)
RELEASE = st.sampled_from(["", "18.3.20", "25.3.17", "7.3.8.patched"])
ENTRY = st.builds(
    WireEntry,
    vlsn=st.integers(1, (1 << 63) - 1),
    type_number=st.sampled_from([5, 17, 18, 30, 31, 33, 35]),
    log_version=st.integers(8, 26),
    body=st.binary(max_size=60),
)
TUPLE_TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=12)
NODE = st.builds(
    GroupNode,
    name=TUPLE_TEXT, id=I32, format_version=st.just(3), type=st.integers(0, 4), quorum_ack=st.booleans(),
    removed=st.booleans(), host=TUPLE_TEXT, port=st.integers(0, 65535), local_cbvlsn=I64, barrier_time=I64,
    change_version=I32, je_version=st.sampled_from(["", "18.3.20"]),
)  # fmt: skip
GROUP = st.builds(
    RepGroup,
    name=TUPLE_TEXT, uuid_high=I64, uuid_low=I64, format_version=st.just(3), change_version=I32, last_node_id=I32,
    min_je_version=st.just("7.5.0"),
)  # fmt: skip
PROPOSAL = st.builds(
    election_lines.Proposal, st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 128) - 1), st.integers(0, 1 << 31)
)
NAME = FIELD.filter(lambda text: "$" not in text and "," not in text and text != "")
SUGGESTION = st.builds(election_lines.Suggestion, NAME, st.integers(0, 65535), NAME, I32)
MEMBERS = st.builds(group_lines.Members, GROUP, st.lists(NODE, max_size=3).map(tuple))

BY_VALUE: dict[int, st.SearchStrategy[Any]] = {
    id(values.FLAG): st.booleans(), id(values.INT): I32, id(values.LONG): I64, id(values.TEXT): PRINTABLE,
    id(values.RELEASE): RELEASE, id(values.BYTES): st.binary(max_size=40),
    id(values.TEXTS): st.lists(PRINTABLE, max_size=4).map(tuple),
    id(values.LONGS): st.lists(I64, max_size=4).map(tuple),
    id(values.PAIR): st.builds(values.NameIdPair, PRINTABLE, I32),
}  # fmt: skip
BY_TOKEN: dict[int, st.SearchStrategy[Any]] = {
    id(lines.FIELD): FIELD, id(lines.SENTENCE): PRINTABLE, id(lines.NUMBER): I64, id(lines.OPTIONAL_NUMBER): I64,
    id(lines.TRUTH): st.booleans(), id(election_lines.PROPOSAL): PROPOSAL, id(election_lines.SUGGESTION): SUGGESTION,
    id(group_lines.MEMBERS): MEMBERS,
}  # fmt: skip
# Fields whose type is of their class only.
BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    "entry": ENTRY, "sync_policy": st.integers(0, 2), "kind": st.integers(0, 2),
    "node_type": st.sampled_from(feeder.NODE_TYPE_WORDS), "state": st.sampled_from(node_state.STATES),
    "providers": st.lists(st.builds(feeder.Provider, NODE, st.integers(200, 300)), max_size=3).map(tuple),
    "problem": st.sampled_from(lines.PROBLEMS), "change": st.sampled_from(["ADD", "REMOVE"]), "node": NODE,
    "nodes": st.lists(NAME, min_size=1, max_size=3).map(tuple), "port": st.integers(0, 65535),
    "accepted": st.none() | SUGGESTION, "major_ranking": st.none() | I64,
    "digest": st.binary(min_size=16, max_size=16) | st.binary(min_size=32, max_size=32),
}  # fmt: skip


def messages(kind: type[Message], version: int) -> st.SearchStrategy[Message]:
    """Messages of a class as a version has them."""
    fields = {
        name: BY_VALUE[id(value)] if id(value) in BY_VALUE else BY_NAME[name]
        for name, value, since in kind.COLUMNS
        if version >= since
    }
    return st.builds(kind, **fields)


def text_messages(kind: type[TextMessage]) -> st.SearchStrategy[TextMessage]:
    """Messages of a class; what may be missing is there."""
    return st.builds(
        kind, **{name: BY_TOKEN[id(token)] if id(token) in BY_TOKEN else BY_NAME[name] for name, token in kind.SLOTS}
    )


ENVELOPES = st.builds(Envelope, st.sampled_from(["1.0", "2.0", "4"]), FIELD, I32)


def binary_kinds() -> list[tuple[Table, type[Message], bool, int]]:
    """Table, class, whether the client sends it, and version: all there are."""
    return [
        (table, kind, client, version)
        for table in BINARY
        for kind, client in table.classes()
        for version in VERSIONS[table.service]
        if version >= kind.SINCE
    ]


def text_kinds() -> list[tuple[LineTable, type[TextMessage], bool]]:
    """Table, class and whether the client sends it: all there are."""
    return [(table, kind, client) for table in TEXT for kind, client in table.classes()]
