"""Members that vote, beside what else a group that is played answers."""

from __future__ import annotations

from collections.abc import Callable

from engine.rep.client.connection import Address, Connection
from engine.rep.group import release_of
from engine.rep.wire.election_lines import (
    ACCEPTOR,
    LEARNER,
    Accept,
    AcceptReply,
    Promise,
    Propose,
    Reject,
    Result,
    Suggestion,
)
from engine.rep.wire.inbox import Inbox
from engine.rep.wire.lines import Envelope, TextMessage
from engine.rep.wire.services import encode_service_request
from tests.support.groups.group_double import GroupDouble

Answer = Callable[[TextMessage], TextMessage | None]


def voting(
    ranking: tuple[int, int], *, port: int = 7002, accepts: bool = True, priority: int = 1, term: int | None = None
) -> Answer:
    """A member that promises with the ranking of its log, and accepts or not."""
    theirs = Suggestion("localhost", port, f"n{port - 7000}", port - 7000)

    def answer(message: TextMessage) -> TextMessage | None:
        if isinstance(message, Propose):
            return Promise(
                proposal=message.proposal, accepted=None, suggestion=theirs, major_ranking=ranking[0],
                priority=priority, log_version=17, je_version=release_of(17), minor_ranking=ranking[1],
                node_id=theirs.id, term=term,
            )  # fmt: skip
        assert isinstance(message, Accept)
        later = message.proposal._replace(time_ms=message.proposal.time_ms + 1)
        return AcceptReply(proposal=message.proposal, value=message.value) if accepts else Reject(proposal=later)

    return answer


class Voters:
    """A group whose members vote.

    Arguments:
        group: what else they answer.
        answers: of each, by its port; who is not there does not vote.
    """

    def __init__(self, group: GroupDouble, answers: dict[int, Answer]) -> None:
        self._group = group
        self.answers = answers
        self.results: list[tuple[int, Result]] = []

    def connect(self, address: Address, deadline: float) -> Connection:
        """A connection, whose first bytes say whom it is for."""
        return _Voice(self, self._group.connect(address, deadline), address[1])


class _Voice:
    def __init__(self, voters: Voters, plain: Connection, port: int) -> None:
        self._voters = voters
        self._plain = plain
        self._port = port
        self._inbox: Inbox | None = None
        self._table = ACCEPTOR
        self._out = b""

    def send(self, data: bytes, deadline: float) -> None:
        """A line for the Acceptor, or the Learner; anything else is for the group."""
        tables = {encode_service_request(table.service): table for table in (ACCEPTOR, LEARNER)}
        if data in tables and (tables[data] is LEARNER or self._port in self._voters.answers):
            self._inbox, self._table, self._out = Inbox(from_client=True), tables[data], b"\0"
        elif self._inbox is None:
            self._plain.send(data, deadline)
        else:
            self._inbox.feed(data)
            line = self._inbox.line(self._table)
            assert line is not None
            self._say(*line)

    def receive(self, deadline: float) -> bytes:
        """What is answered; nothing at its end."""
        if self._inbox is None:
            return self._plain.receive(deadline)
        data, self._out = self._out, b""
        return data

    def close(self) -> None:
        """The client has gone."""
        self._plain.close()

    def _say(self, asked: Envelope, message: TextMessage) -> None:
        if isinstance(message, Result):
            self._voters.results.append((self._port, message))
        if self._table is LEARNER:
            return
        said = self._voters.answers[self._port](message)
        if said is not None:
            self._out = ACCEPTOR.encode(asked._replace(sender=2), said, client=False)
