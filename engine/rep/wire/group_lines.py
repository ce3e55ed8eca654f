"""Services ``Group``, ``NodeState`` and ``Monitor``: members and their states (je-ha-protocol.md 12.4 to 12.6).

Records of the group database are sent as hex, the low digit of each byte first: ``4a`` is written ``a4``.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, NamedTuple

from engine.errors import FormatError
from engine.format.entry.group_db import (
    GroupNode,
    RepGroup,
    decode_group,
    decode_group_node,
    encode_group,
    encode_group_node,
)
from engine.rep.wire.lines import FIELD, NUMBER, SEPARATOR, TRUTH, LineTable, TextMessage, Token, choice, text_message
from engine.rep.wire.lines import SENTENCE as _SENTENCE
from engine.rep.wire.node_state import STATES

_HEX: Final = re.compile(r"(?:[0-9a-f]{2})+", re.ASCII)
_PORT: Final = re.compile(r"\d{1,5}", re.ASCII)


class Members(NamedTuple):
    """The record of a group, and those of its members."""

    group: RepGroup
    nodes: tuple[GroupNode, ...]


def _from_hex(word: str) -> bytes:
    if _HEX.fullmatch(word) is None:
        raise FormatError("record", expected="pairs of hex digits", found=repr(word[:80]))
    # Swaps the two digits of every byte.
    return bytes((byte & 15) << 4 | byte >> 4 for byte in bytes.fromhex(word))


def _to_hex(data: bytes) -> str:
    return bytes((byte & 15) << 4 | byte >> 4 for byte in data).hex()


def _read_members(text: str) -> Members:
    group, *nodes = text.split(SEPARATOR)
    return Members(decode_group(_from_hex(group)), tuple(decode_group_node(_from_hex(node)) for node in nodes))


def _write_members(members: Members) -> str:
    nodes = (_to_hex(encode_group_node(node)) for node in members.nodes)
    return SEPARATOR.join((_to_hex(encode_group(members.group)), *nodes))


def _write_names(names: tuple[str, ...]) -> str:
    if not names or any("," in name for name in names):
        raise ValueError(names)
    return ",".join(FIELD.write(name) for name in names)


def _read_port(word: str) -> int:
    if _PORT.fullmatch(word) is None or str(int(word)) != word:
        raise FormatError("port", expected="a number of up to five digits", found=repr(word[:80]))
    return int(word)


MEMBERS: Final[Token[Members]] = Token(_read_members, _write_members, rest=True)
_NODE: Final[Token[GroupNode]] = Token(
    lambda word: decode_group_node(_from_hex(word)), lambda node: _to_hex(encode_group_node(node))
)
_NAMES: Final[Token[tuple[str, ...]]] = Token(lambda word: tuple(word.split(",")), _write_names)
_PORT_NUMBER: Final[Token[int]] = Token(_read_port, str)


@text_message("GREQ")
class GroupRequest(TextMessage):
    """Request for the members of the group."""


@text_message("GRESP")
class GroupResponse(TextMessage):
    """The members known to the node."""

    members: Annotated[Members, MEMBERS]


@text_message("ENREQ")
class EnsureNode(TextMessage):
    """Add this monitor as a member."""

    node: Annotated[GroupNode, _NODE]


@text_message("ENRESP")
class EnsureNodeResponse(TextMessage):
    """The monitor is a member, with this id."""

    name: Annotated[str, FIELD]
    id: Annotated[int, NUMBER]


@text_message("RMREQ")
class RemoveMember(TextMessage):
    """Remove a member from the group; its record stays."""

    node: Annotated[str, FIELD]


@text_message("DLREQ")
class DeleteMember(TextMessage):
    """Delete the record of a member."""

    node: Annotated[str, FIELD]


@text_message("UPDADDR")
class UpdateAddress(TextMessage):
    """Change the address of a member that is not running."""

    node: Annotated[str, FIELD]
    host: Annotated[str, FIELD]
    port: Annotated[int, _PORT_NUMBER]


@text_message("TMASTER")
class TransferMaster(TextMessage):
    """Make one of these nodes the master."""

    nodes: Annotated[tuple[str, ...], _NAMES]
    timeout_ms: Annotated[int, NUMBER]
    force: Annotated[bool, TRUTH]


@text_message("TMRESP")
class TransferMasterResponse(TextMessage):
    """The node that has become the master."""

    winner: Annotated[str, FIELD]


@text_message("GRFAIL")
class GroupFailure(TextMessage):
    """The request failed, with the reason."""

    text: Annotated[str, _SENTENCE]
    reason: Annotated[str, FIELD]


@text_message("STATEREQ")
class StateRequest(TextMessage):
    """Request for the state of the node. The name is not checked."""

    node: Annotated[str, FIELD]


@text_message("STATERESP")
class StateResponse(TextMessage):
    """The node's own name, its master, the time of joining, its state."""

    node: Annotated[str, FIELD]
    master: Annotated[str, FIELD]
    joined_ms: Annotated[int, NUMBER]
    state: Annotated[str, choice(*STATES)]


@text_message("GCHG")
class GroupChange(TextMessage):
    """A member was added or removed."""

    node: Annotated[str, FIELD]
    change: Annotated[str, choice("ADD", "REMOVE")]
    members: Annotated[Members, MEMBERS]


@text_message("JG")
class JoinedGroup(TextMessage):
    """A node runs."""

    node: Annotated[str, FIELD]
    master: Annotated[str, FIELD]
    joined_ms: Annotated[int, NUMBER]


@text_message("LG")
class LeftGroup(TextMessage):
    """A node has ended."""

    node: Annotated[str, FIELD]
    master: Annotated[str, FIELD]
    joined_ms: Annotated[int, NUMBER]
    reason: Annotated[str, FIELD]
    left_ms: Annotated[int, NUMBER]


GROUP: Final = LineTable(
    "Group",
    "4",
    client=(GroupRequest, EnsureNode, RemoveMember, DeleteMember, UpdateAddress, TransferMaster),
    server=(GroupResponse, EnsureNodeResponse, TransferMasterResponse, GroupFailure),
)
STATE: Final = LineTable("NodeState", "1.0", client=(StateRequest,), server=(StateResponse,))
MONITOR: Final = LineTable("Monitor", "2.0", client=(GroupChange, JoinedGroup, LeftGroup))
