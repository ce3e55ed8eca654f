"""Service ``Feeder`` for an arbiter: the Commits that wait for it, and heartbeats (je-ha-protocol.md 15.3).

An arbiter has no log, so there is no syncup: the stream begins right after the handshake. It gets only Commits, each
with a request for an acknowledgement, not in an order without gaps. What it answers to heartbeats counts for nothing.

Example: handshake | Heartbeat | HeartbeatResponse -1 | Commit 50 (request) | Ack -27 | Heartbeat | ...
"""

from __future__ import annotations

from engine.db.engine import Engine
from engine.errors import JetoolError
from engine.rep.acks import GroupGate
from engine.rep.arbiter_acks import ArbiterAcks
from engine.rep.master.feeder_entries import outgoing
from engine.rep.master.feeder_session import FeederSession
from engine.rep.outflow import LoggedEntry
from engine.rep.stream import raw_at
from engine.rep.wire.feeder import SYNC, Commit


class ArbiterFeed:
    """Feeds the arbiter.

    Arguments:
        engine: the master's environment.
        gate: knows which Commits wait, and receives the acknowledgements.
        session: the connection of the arbiter.
    """

    def __init__(self, engine: Engine, gate: GroupGate, session: FeederSession) -> None:
        self._engine = engine
        self._gate = gate
        self._session = session

    def run(self) -> None:
        """Serve until the arbiter disconnects.

        Raises:
            JetoolError: the arbiter sent an invalid message or disconnected, or the log cannot be read.
        """
        name = self._session.fed.name
        acks = self._gate.arbiter_connected(name)
        try:
            self._session.send(lambda wait_s: self._next(acks, wait_s), lambda: None)
            self._session.listen(self._gate.arbiter_acked)
        except JetoolError as error:
            raise self._session.problem or error from error
        finally:
            self._session.close()
            self._gate.arbiter_disconnected(name)
            self._session.join()

    def _next(self, acks: ArbiterAcks, wait_s: float) -> list[Commit]:
        vlsn = acks.next_vlsn(wait_s)
        if vlsn is None:
            return []
        raw = raw_at(self._engine, vlsn)
        logged = LoggedEntry(raw.vlsn, raw.type_number, raw.version, raw.body)
        return [self._session.asking(logged, outgoing(*logged, self._session.fed.stream), SYNC)]
