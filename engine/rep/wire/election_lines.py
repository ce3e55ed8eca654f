"""Services ``Acceptor`` and ``Learner``: elections by Paxos, and their results (je-ha-protocol.md 12.2)."""

from __future__ import annotations

import re
from typing import Annotated, Final, NamedTuple

from engine.errors import FormatError
from engine.rep.wire.lines import (
    FIELD,
    NUMBER,
    OPTIONAL_NUMBER,
    LineTable,
    TextMessage,
    Token,
    or_empty,
    text_message,
)

_PROPOSAL: Final = re.compile(r"([0-9a-f]{16})([0-9a-f]{32})([0-9a-f]{8})", re.ASCII)
_BETWEEN: Final = "$$$"
_PORT: Final = re.compile(r"\d{1,5}", re.ASCII)
_ID: Final = re.compile(r"-?\d{1,10}", re.ASCII)


class Proposal(NamedTuple):
    """The number of a round, which increases."""

    time_ms: int
    machine: int
    counter: int


class Suggestion(NamedTuple):
    """A node proposed as master."""

    host: str
    port: int
    node: str
    id: int


def _read_proposal(word: str) -> Proposal:
    found = _PROPOSAL.fullmatch(word)
    if found is None:
        raise FormatError("proposal", expected="56 hex digits", found=repr(word[:80]))
    time_ms, machine, counter = (int(part, 16) for part in found.groups())
    return Proposal(time_ms, machine, counter)


def _write_proposal(proposal: Proposal) -> str:
    return f"{proposal.time_ms:016x}{proposal.machine:032x}{proposal.counter:08x}"


def _read_suggestion(word: str) -> Suggestion:
    parts = word.split(_BETWEEN)
    if len(parts) != len(Suggestion._fields) or _PORT.fullmatch(parts[1]) is None or _ID.fullmatch(parts[3]) is None:
        raise FormatError("suggestion", expected="host, port, node, id", found=repr(word[:80]))
    return Suggestion(parts[0], int(parts[1]), parts[2], int(parts[3]))


def _write_suggestion(suggestion: Suggestion) -> str:
    host, port, node, node_id = suggestion
    return _BETWEEN.join((FIELD.write(host), str(port), FIELD.write(node), str(node_id)))


PROPOSAL: Final[Token[Proposal]] = Token(_read_proposal, _write_proposal)
SUGGESTION: Final[Token[Suggestion]] = Token(_read_suggestion, _write_suggestion)
_PERHAPS_SUGGESTION: Final = or_empty(SUGGESTION)
_PERHAPS_NUMBER: Final = or_empty(NUMBER)


@text_message("P")
class Propose(TextMessage):
    """Request a promise to accept nothing older."""

    proposal: Annotated[Proposal, PROPOSAL]


@text_message("A")
class Accept(TextMessage):
    """Take this."""

    proposal: Annotated[Proposal, PROPOSAL]
    value: Annotated[Suggestion, SUGGESTION]


@text_message("PR")
class Promise(TextMessage):
    """Promised; with the value accepted before, and the node that this one suggests.

    Attributes:
        major_ranking, minor_ranking: ranking of the suggestion.
        term: when the term of the master that wrote its last data began, in ms; since 25.3.
    """

    proposal: Annotated[Proposal, PROPOSAL]
    accepted: Annotated[Suggestion | None, _PERHAPS_SUGGESTION]
    suggestion: Annotated[Suggestion, SUGGESTION]
    major_ranking: Annotated[int | None, _PERHAPS_NUMBER]
    priority: Annotated[int, NUMBER]
    log_version: Annotated[int, NUMBER]
    je_version: Annotated[str, FIELD]
    minor_ranking: Annotated[int, NUMBER]
    node_id: Annotated[int, NUMBER]
    term: Annotated[int | None, OPTIONAL_NUMBER] = None


@text_message("R")
class Reject(TextMessage):
    """A later proposal was promised, given here."""

    proposal: Annotated[Proposal, PROPOSAL]


@text_message("AD")
class AcceptReply(TextMessage):
    """Taken."""

    proposal: Annotated[Proposal, PROPOSAL]
    value: Annotated[Suggestion, SUGGESTION]


@text_message("RE")
class Result(TextMessage):
    """This node is the master."""

    proposal: Annotated[Proposal, PROPOSAL]
    value: Annotated[Suggestion, SUGGESTION]


@text_message("MQ")
class MasterQuery(TextMessage):
    """Who is the master?"""


@text_message("MQR")
class MasterAnswer(TextMessage):
    """The master of the group."""

    proposal: Annotated[Proposal, PROPOSAL]
    value: Annotated[Suggestion, SUGGESTION]


@text_message("X")
class ShutDownAgents(TextMessage):
    """Stop elections on this node."""


ACCEPTOR: Final = LineTable(
    "Acceptor",
    "2.0",
    client=(Propose, Accept, ShutDownAgents),
    server=(Promise, Reject, AcceptReply),
    received_only=(ShutDownAgents,),
)
LEARNER: Final = LineTable(
    "Learner",
    "2.0",
    client=(Result, MasterQuery, ShutDownAgents),
    server=(MasterAnswer,),
    received_only=(ShutDownAgents,),
)
