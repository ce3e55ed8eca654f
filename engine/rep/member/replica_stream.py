"""The stream of a master on a replica: replayed, made durable, acknowledged."""

from __future__ import annotations

import time
from typing import Final

from engine.db.engine import Engine
from engine.format.entry_types import COMMIT
from engine.rep.member.elections import Voter
from engine.rep.member.link import MasterLink
from engine.rep.replay import Replay
from engine.rep.wire.feeder import NO_SYNC, SYNC, WRITE_NO_SYNC

SYNC_INTERVAL_S: Final = 0.05


class ReplicaStream:
    """Receives and replays the stream of a master: call ``receive`` and ``acknowledge`` in turn.

    Arguments:
        engine: the environment.
        link: the connection to the master.
        replay: writes to the environment.
        voter: for an electable member, which replays no Commit of a replaced master.
        master: the name of the master.
    """

    def __init__(self, engine: Engine, link: MasterLink, replay: Replay, voter: Voter | None, master: str) -> None:
        assert engine.writer is not None
        self._engine = engine
        self._writer = engine.writer
        self._link = link
        self._replay = replay
        self._voter = voter
        self._master = master
        self._synced = 0.0
        self._durable = max(engine.stream_range.last_txn_end, 0)
        self._heard = 0

    def receive(self) -> None:
        """Replay what comes next.

        Raises:
            DisconnectedError: the master is gone, or was replaced.
        """
        link, replay, voter = self._link, self._replay, self._voter
        self._heard = link.heartbeats
        for entry in link.receive():
            if voter is None or entry.type_number != COMMIT:
                replay.redo(entry)
                continue
            with voter.acceptor.committing():
                voter.check(self._master)
                replay.redo(entry)
        replay.master_vlsn = link.master_vlsn

    def acknowledge(self) -> bool:
        """Sync and acknowledge replayed entries; return whether a heartbeat shows that nothing is missing here."""
        link = self._link
        has_heard = link.heartbeats > self._heard
        now = time.monotonic()
        asked = min((policy for _, policy in link.awaited), default=NO_SYNC)
        # One fsync for all received entries; entries without a waiting caller are reported with the next heartbeat.
        if asked == SYNC or now - self._synced > SYNC_INTERVAL_S or has_heard:
            self._replay.sync()
            self._synced, self._durable = now, max(self._engine.stream_range.last_txn_end, 0)
        elif asked == WRITE_NO_SYNC and link.awaited:
            self._writer.flush(sync=False)
        link.acknowledge(self._durable)
        if not has_heard:
            return False
        here = self._engine.stream_range
        link.report(max(here.last_txn_end, 0))
        return here.last_txn_end >= link.master_vlsn
