"""Service ``Feeder``: serves one replica of a master, after the handshake (je-ha-protocol.md 8, 9).

* Syncup: the replica requests the entries at its own VLSNs until it finds where both logs agree. All log files are
  protected meanwhile; after the start of the stream only the files not yet sent.
* Then entries are sent, and the position of the replica is received (``engine.rep.master.feeder_session``). Commits
  whose caller waits are sent with a request for an acknowledgement, if acknowledgements of this replica count.

Example: EntryRequest 90 -> Entry 90 | StartStream 91 | Heartbeat | 91..140 | HeartbeatResponse 140 | Ack -27
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from engine.db.engine import Engine
from engine.errors import JetoolError
from engine.format.entry.group_db import GroupNode, encode_group_node
from engine.format.entry_types import COMMIT
from engine.format.vlsn import NULL_VLSN
from engine.rep.acks import GroupGate
from engine.rep.master.feeder_entries import outgoing
from engine.rep.master.feeder_session import FeederSession
from engine.rep.master.handshake import PREPARATION_S
from engine.rep.outflow import LoggedEntry, Outflow
from engine.rep.peers import PeerError
from engine.rep.stream import raw_at
from engine.rep.wire.entries import WireEntry
from engine.rep.wire.feeder import (
    AVAILABLE,
    DEFAULT,
    FEEDER,
    NOW,
    SYNC,
    AlternateMatchpoint,
    Commit,
    DBIdRequest,
    DBIdResponse,
    Entry,
    EntryNotFound,
    EntryRequest,
    Provider,
    RestoreRequest,
    RestoreResponse,
    StartStream,
    SyncupPing,
)

_BATCH_BYTES: Final = 1 << 16
_BATCH_ENTRIES: Final = 500
_ASKED: Final = (EntryRequest, DBIdRequest, RestoreRequest, StartStream, SyncupPing)


class ReplicaFeed:
    """Feeds one replica.

    Arguments:
        engine: the master's environment.
        gate: receives the acknowledgements of the replica, if they count.
        session: the connection of the replica.
        providers: returns the nodes that currently can be used for a network restore.
        replica_sync: sync policy on replicas for commits with a waiting caller.
    """

    def __init__(
        self,
        engine: Engine,
        gate: GroupGate,
        session: FeederSession,
        providers: Callable[[], list[GroupNode]],
        replica_sync: int = SYNC,
    ) -> None:
        assert engine.vlsn_index is not None
        self._engine = engine
        self._index = engine.vlsn_index
        self._gate = gate
        self._session = session
        self._fed = session.fed
        self._providers = providers
        self._replica_sync = replica_sync
        self._asked = False

    def run(self) -> None:
        """Serve until the replica disconnects.

        Raises:
            JetoolError: the replica sent an invalid message or disconnected, or the log cannot be read.
        """
        counts = self._fed.acknowledges
        if counts:
            # The replica may roll back entries that it acknowledged in an earlier session.
            self._gate.forget(self._fed.name)
        assert self._engine.cleaner is not None
        # All files are protected, since the matchpoint may be in any of them. Once the stream begins, its reader
        # protects the files not yet read (R-CLN-41).
        syncup = self._engine.cleaner.protect_from(f"the syncup of {self._fed.name}", 0)
        try:
            started = self._sync_up()
            syncup.release()
            if started:
                self._session.listen(self._acked, self._reached, self._synced)
        except JetoolError as error:
            raise self._session.problem or error from error
        finally:
            syncup.release()
            self._session.close()
            if counts:
                self._gate.disconnected(self._fed.name)
            self._session.join()

    # Syncup.

    def _sync_up(self) -> bool:
        """Answer questions until the stream begins; False if the replica needs a network restore."""
        caller, version = self._session.caller, self._fed.protocol
        while True:
            asked = caller.receive(FEEDER, version, *_ASKED, timeout_s=PREPARATION_S)
            self._session.heard = time.monotonic()
            if isinstance(asked, StartStream):
                # JE's subscribers send a filter, which may be ignored: they accept entries that it would exclude.
                self._start(asked.vlsn)
                return True
            if isinstance(asked, SyncupPing):
                caller.send(FEEDER, version, SyncupPing())
                continue
            if isinstance(asked, RestoreRequest):
                named = [Provider(node, len(encode_group_node(node))) for node in self._providers()]
                caller.send(FEEDER, version, RestoreResponse(cbvlsn=NULL_VLSN, providers=tuple(named)))
                return False
            if isinstance(asked, DBIdRequest):
                state = self._engine.database(asked.name)
                if state is None:
                    raise PeerError(f"{caller.peer} asks for a database that is not there", found=repr(asked.name[:80]))
                caller.send(FEEDER, version, DBIdResponse(id=state.id))
                continue
            assert isinstance(asked, EntryRequest)
            caller.send(FEEDER, version, self._answer(asked.vlsn, asked.kind or DEFAULT))

    def _answer(self, vlsn: int, kind: int) -> Entry | AlternateMatchpoint | EntryNotFound:
        """The answer for a VLSN: its entry, or an alternative (je-ha-protocol.md 8.1)."""
        is_first, self._asked = not self._asked, True
        found = self._index.range
        if found.is_empty:
            return EntryNotFound()
        if kind == NOW or (kind == AVAILABLE and vlsn > found.last):
            return Entry(entry=self._at(found.last))
        if found.contains(vlsn):
            return Entry(entry=self._at(vlsn))
        if kind == AVAILABLE:
            return Entry(entry=self._at(found.first))
        if vlsn > found.last and is_first and found.last_sync != NULL_VLSN:
            return AlternateMatchpoint(entry=self._at(found.last_sync))
        return EntryNotFound()

    def _at(self, vlsn: int) -> WireEntry:
        raw = raw_at(self._engine, vlsn)
        return self._form(LoggedEntry(raw.vlsn, raw.type_number, raw.version, raw.body))

    def _form(self, entry: LoggedEntry) -> WireEntry:
        return outgoing(*entry, self._fed.stream)

    # The stream.

    def _start(self, vlsn: int) -> None:
        found = self._index.range
        if not (found.is_empty and vlsn == 1) and not found.first <= vlsn <= found.last + 1:
            raise PeerError(f"{self._session.caller.peer} wants a stream from VLSN {vlsn}", expected=str(found))
        source = Outflow(self._engine, vlsn)
        self._session.reached(vlsn - 1)
        if self._fed.acknowledges:
            # Count the replica as connected only after the source exists: a replica that cannot be fed must not allow
            # commits to begin.
            self._gate.connected(self._fed.name)
        self._session.send(lambda wait_s: self._batch(source, wait_s), source.close)

    def _reached(self, vlsn: int) -> None:
        self._session.reached(vlsn)
        if self._fed.acknowledges:
            self._gate.reached(self._fed.name, vlsn)

    def _synced(self, vlsn: int) -> None:
        if self._fed.acknowledges:
            self._gate.synced(self._fed.name, vlsn)

    def _acked(self, vlsn: int) -> None:
        self._gate.acked(self._fed.name, vlsn)

    def _batch(self, source: Outflow, wait_s: float) -> list[WireEntry | Commit]:
        batch = source.next_batch(max(int(wait_s * 1000), 1), _BATCH_BYTES, _BATCH_ENTRIES)
        return [self._carried(logged) for logged in batch]

    def _carried(self, logged: LoggedEntry) -> WireEntry | Commit:
        entry = self._form(logged)
        if logged.type_number != COMMIT or not self._fed.acknowledges or not self._gate.is_awaited(logged.vlsn):
            return entry
        return self._session.asking(logged, entry, self._replica_sync)
