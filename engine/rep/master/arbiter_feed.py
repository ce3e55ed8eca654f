"""Service ``Feeder`` for an arbiter: the Commits that wait for it, and heartbeats (je-ha-protocol.md 15.3).

An arbiter has no log, so there is no syncup: the stream begins right after the handshake. It gets only Commits, each
with a request for an acknowledgement, not in an order without gaps. What it answers to heartbeats counts for nothing.

Example: handshake | Heartbeat | HeartbeatResponse -1 | Commit 50 (request) | Ack -27 | Heartbeat | ...
"""

from __future__ import annotations

from engine.db.engine import Engine
from engine.errors import JetoolError
from engine.format.vlsn import NULL_VLSN
from engine.rep.acks import GroupGate
from engine.rep.arbiter_acks import ArbiterAcks
from engine.rep.intervals import USUAL_INTERVALS
from engine.rep.master.feeder_entries import outgoing
from engine.rep.master.feeder_session import FeederSession
from engine.rep.master.handshake import FedNode
from engine.rep.outflow import LoggedEntry
from engine.rep.services.caller import Caller
from engine.rep.stream import raw_at
from engine.rep.wire.feeder import SYNC, Commit


class ArbiterFeed:
    """Feeds the arbiter.

    Arguments:
        engine: the master's environment.
        gate: knows which Commits wait, and receives the acknowledgements.
        caller: the connection of the arbiter, after the handshake.
        fed: who it is.
        heartbeat_s: pause between two heartbeats.

    Attributes:
        reached_vlsn: the last VLSN that it has acknowledged.
    """

    def __init__(
        self,
        engine: Engine,
        gate: GroupGate,
        caller: Caller,
        fed: FedNode,
        heartbeat_s: float = USUAL_INTERVALS.heartbeat_s,
    ) -> None:
        self._engine = engine
        self._gate = gate
        self._session = FeederSession(
            engine, caller, fed, heartbeat_s, positioned=_ignore, acked=self._acked, synced=_ignore
        )
        self.fed = fed
        self.reached_vlsn = NULL_VLSN

    @property
    def heard(self) -> float:
        """Time of the last received message, by the monotonic clock."""
        return self._session.heard

    @property
    def problem(self) -> JetoolError | None:
        """The error of this node that ended the session, or None."""
        return self._session.problem

    def run(self) -> None:
        """Serve until the arbiter disconnects.

        Raises:
            JetoolError: the arbiter sent an invalid message or disconnected, or the log cannot be read.
        """
        acks = self._gate.arbiter_connected(self.fed.name)
        try:
            self._session.send(lambda wait_s: self._next(acks, wait_s), lambda: None)
            self._session.listen()
        except JetoolError as error:
            raise self.problem or error from error
        finally:
            self.close()
            self._gate.arbiter_disconnected(self.fed.name)
            self._session.join()

    def close(self) -> None:
        """End the session, even while its threads run."""
        self._session.close()

    def _next(self, acks: ArbiterAcks, wait_s: float) -> list[Commit]:
        vlsn = acks.next_vlsn(wait_s)
        if vlsn is None:
            return []
        raw = raw_at(self._engine, vlsn)
        logged = LoggedEntry(raw.vlsn, raw.type_number, raw.version, raw.body)
        return [self._session.asking(logged, outgoing(*logged, self.fed.stream), SYNC)]

    def _acked(self, vlsn: int) -> None:
        self.reached_vlsn = max(self.reached_vlsn, vlsn)
        self._gate.arbiter_acked(vlsn)


def _ignore(_: int) -> None:
    """The arbiter has no position in the stream: it does not get all of it."""
