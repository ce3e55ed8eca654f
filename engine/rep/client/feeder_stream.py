"""The stream of a master after the handshake: questions about VLSNs, the start of the stream, and received messages.

A feeder searches entries only backward, so each question is about a lower VLSN than the previous one: 120, then 97,
then 60. After ``start(61)`` entries come from VLSN 61 on, with heartbeats among them; each heartbeat needs an answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from engine.format.vlsn import NULL_VLSN
from engine.rep.client.handshake import FeederAgreement
from engine.rep.peers import DisconnectedError, PeerError
from engine.rep.wire.entries import WireEntry
from engine.rep.wire.feeder import (
    FEEDER,
    Ack,
    AlternateMatchpoint,
    Commit,
    Entry,
    EntryNotFound,
    EntryRequest,
    GroupAck,
    Heartbeat,
    HeartbeatResponse,
    ProtocolError,
    SecurityFailureResponse,
    ShutdownRequest,
    ShutdownResponse,
    StartStream,
    SyncupPing,
)

# Lower versions have no types of requests.
_TYPED_REQUESTS: Final = 7
_SILENCE_S: Final = 30.0
# Versions from which answers hold the id of the heartbeat, the time, and the last durable VLSN.
_WITH_IDS: Final = 11
_WITH_TIMES: Final = 13
_WITH_DURABLE: Final = 14
_UNASKED: Final = -1


class FeederStream:
    """A connection after the handshake.

    Arguments:
        joined: the handshake; this object takes over its call.

    Attributes:
        awaits: the durability that the last received entry needs before it is acknowledged; None: no acknowledgement is
            due.
    """

    def __init__(self, joined: FeederAgreement) -> None:
        self._call = joined.call
        self._version = joined.version
        self.peer = joined.call.peer
        self._asked: int | None = None
        self.awaits: int | None = None
        self._beat = _UNASKED

    @property
    def has_typed_requests(self) -> bool:
        """Whether questions can have a type other than a matchpoint."""
        return self._version >= _TYPED_REQUESTS

    def close(self) -> None:
        """End the stream, even while another thread waits for the master."""
        self._call.close()

    def ask(self, vlsn: int, kind: int) -> WireEntry | AlternateMatchpoint | None:
        """The master's entry at a VLSN, which must be lower than all requested before; None: none.

        Arguments:
            kind: the type of request; not sent if the version has no types.

        Raises:
            DisconnectedError: the master has gone. PeerError: the answer is invalid.
        """
        # The master reads backward only: another order would end it.
        assert self._asked is None or vlsn < self._asked, (vlsn, self._asked)
        self._asked = vlsn
        request = EntryRequest(vlsn=vlsn, kind=kind if self.has_typed_requests else None)
        self._call.send(FEEDER, self._version, request)
        answer = self._call.receive(FEEDER, self._version, Entry, AlternateMatchpoint, EntryNotFound, SyncupPing)
        while isinstance(answer, SyncupPing):
            self._call.send(FEEDER, self._version, SyncupPing())
            answer = self._call.receive(FEEDER, self._version, Entry, AlternateMatchpoint, EntryNotFound, SyncupPing)
        if isinstance(answer, AlternateMatchpoint):
            return answer
        return answer.entry if isinstance(answer, Entry) else None

    def start(self, vlsn: int) -> None:
        """Begin the stream, only at VLSN 1 or right after an answer; elsewhere the master would wait or end."""
        self._call.send(FEEDER, self._version, StartStream(vlsn=vlsn, filter=b""))

    def receive(self, wait_s: float | None = None) -> Iterator[WireEntry | Heartbeat]:
        """Wait for the next messages.

        Arguments:
            wait_s: return without messages after this time; None: wait until one arrives.

        Raises:
            DisconnectedError: the stream has ended: the master has lost its role, or the group is shut down.
            PeerError: a message of the master is invalid.
        """
        for one in self._call.stream(self._version, _SILENCE_S, wait_s):
            self.awaits = None
            if isinstance(one, WireEntry | Heartbeat):
                if isinstance(one, Heartbeat) and one.id is not None:
                    self._beat = one.id
                yield one
            elif isinstance(one, Commit):
                self.awaits = one.sync_policy if one.needs_ack else None
                yield one.entry
            elif isinstance(one, ShutdownRequest):
                self._call.send(FEEDER, self._version, ShutdownResponse())
                raise DisconnectedError(f"{self.peer} is being shut down")
            elif isinstance(one, SecurityFailureResponse | ProtocolError):
                raise PeerError(f"{self.peer} has ended the stream", found=one.text)
            else:
                raise PeerError(f"{self.peer} says what makes no sense in a stream", found=type(one).__name__)

    def report(self, txn_end_vlsn: int) -> None:
        """Answer a heartbeat: the last transaction end that is durable here."""
        version = self._version
        response = HeartbeatResponse(
            syncup_vlsn=NULL_VLSN,
            txn_end_vlsn=txn_end_vlsn,
            id=self._beat if version >= _WITH_IDS else None,
            durable_vlsn=txn_end_vlsn if version >= _WITH_DURABLE else None,
            sent_ms=time.time_ns() // 1_000_000 if version >= _WITH_TIMES else None,
        )
        self._beat = _UNASKED
        self._call.send(FEEDER, version, response)

    def acknowledge(self, txn_ids: tuple[int, ...], durable_vlsn: int) -> None:
        """Acknowledge transactions: they have the requested durability here.

        Arguments:
            durable_vlsn: the last transaction end that is durable here.
        """
        durable = durable_vlsn if self._version >= _WITH_DURABLE else None
        said: Ack | GroupAck = GroupAck(txn_ids=txn_ids, durable_vlsn=durable)
        if len(txn_ids) == 1:
            said = Ack(txn_id=txn_ids[0], durable_vlsn=durable)
        self._call.send(FEEDER, self._version, said)
