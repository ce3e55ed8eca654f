"""One connection of a master with a node that it feeds, after the handshake: heartbeats, answers, and two threads.

One thread sends, and a heartbeat each second even if it is busy. The other thread receives. A node that sends nothing,
or receives nothing, for 30 seconds is disconnected. A message out of order ends only its own connection.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from engine.db.engine import Engine
from engine.errors import FormatError, JetoolError, RefusedError
from engine.format.entry.txn_end import decode_txn_end
from engine.format.vlsn import NULL_VLSN
from engine.rep.intervals import USUAL_INTERVALS
from engine.rep.master.handshake import FedNode
from engine.rep.outflow import LoggedEntry
from engine.rep.peers import PeerError
from engine.rep.services.caller import Caller
from engine.rep.wire.batches import join_stream
from engine.rep.wire.entries import WireEntry
from engine.rep.wire.feeder import FEEDER, Ack, Commit, GroupAck, Heartbeat, HeartbeatResponse, ShutdownResponse

_SILENCE_S: Final = 30.0
# Versions from which heartbeats have ids, positions of a filter and times of commits, and the time when they were sent.
_WITH_IDS: Final = 11
_WITH_FILTERS: Final = 12
_WITH_TIMES: Final = 13
# No master has more commits waiting at a time, even with many threads.
_MOST_AWAITED: Final = 100_000
_HEARD: Final = (HeartbeatResponse, Ack, GroupAck, ShutdownResponse)


def _ignore(_: int) -> None:
    """What an arbiter says of its position: it does not get all of the stream."""


class FeederSession:
    """The connection.

    Arguments:
        engine: the master's environment.
        caller: the connection of the node, after the handshake.
        fed: who it is.
        heartbeat_s: pause between two heartbeats.

    Attributes:
        reached_vlsn: the position of the node in the stream, at most.
        heard: time of the last received message, by the monotonic clock; a node answers each heartbeat.
        problem: the error of this node that ended the session, or None.
    """

    def __init__(
        self,
        engine: Engine,
        caller: Caller,
        fed: FedNode,
        heartbeat_s: float = USUAL_INTERVALS.heartbeat_s,
    ) -> None:
        assert engine.vlsn_index is not None
        self._engine = engine
        self._index = engine.vlsn_index
        self._heartbeat_s = heartbeat_s
        self._mutex = threading.Lock()
        self._awaited: dict[int, int] = {}
        self._beats = -1
        self._sender: threading.Thread | None = None
        self.caller = caller
        self.fed = fed
        self.reached_vlsn = NULL_VLSN
        self.heard = time.monotonic()
        self.problem: JetoolError | None = None

    def close(self) -> None:
        """End the session, even while its threads run."""
        self.caller.close()

    def join(self) -> None:
        """Wait for the end of the sending thread."""
        if self._sender is not None:
            self._sender.join()

    def send(self, take: Callable[[float], Sequence[WireEntry | Commit]], release: Callable[[], None]) -> None:
        """Begin to send, in a thread of its own.

        Arguments:
            take: waits at most this number of seconds for entries to send.
            release: called at the end.
        """
        self._sender = threading.Thread(
            target=self._send, args=(take, release), name=f"feeder {self.fed.name}", daemon=True
        )
        self._sender.start()

    def reached(self, vlsn: int) -> None:
        """Note a position of the node."""
        self.reached_vlsn = max(self.reached_vlsn, vlsn)

    def listen(
        self,
        acked: Callable[[int], None],
        positioned: Callable[[int], None] = _ignore,
        synced: Callable[[int], None] = _ignore,
    ) -> None:
        """Receive until the node disconnects.

        Arguments:
            acked: called with the VLSN of a Commit that the node has acknowledged.
            positioned: called with the answer to a heartbeat.
            synced: called with the VLSN up to which the log of the node is on its disk, if it reports that.

        Raises:
            PeerError: always, as the node disconnects or breaks the protocol.
        """
        while True:
            said = self.caller.receive(FEEDER, self.fed.protocol, *_HEARD, timeout_s=_SILENCE_S)
            self.heard = time.monotonic()
            durable = said.durable_vlsn if isinstance(said, HeartbeatResponse | Ack | GroupAck) else None
            if durable is not None:
                synced(durable)
            if isinstance(said, HeartbeatResponse) and said.txn_end_vlsn is not None:
                positioned(said.txn_end_vlsn)
            elif isinstance(said, Ack | GroupAck):
                for vlsn in self._acknowledged(said.txn_ids if isinstance(said, GroupAck) else (said.txn_id,)):
                    self.reached(vlsn)
                    acked(vlsn)

    def asking(self, logged: LoggedEntry, entry: WireEntry, sync_policy: int) -> Commit:
        """A Commit with a request for an acknowledgement.

        Arguments:
            logged, entry: the Commit as logged, and as sent.
        """
        txn_id = decode_txn_end(logged.body, logged.version).id
        with self._mutex:
            self._awaited[txn_id] = logged.vlsn
            if len(self._awaited) > _MOST_AWAITED:
                raise PeerError(f"{self.caller.peer} acknowledges nothing")
        return Commit(needs_ack=True, sync_policy=sync_policy, entry=entry)

    def _acknowledged(self, txn_ids: tuple[int, ...]) -> list[int]:
        """The VLSNs of the Commits, which wait no longer."""
        # Ids without a request are ignored, such as the zeros at the end of a GroupAck.
        with self._mutex:
            return [self._awaited.pop(txn_id) for txn_id in txn_ids if txn_id in self._awaited]

    def _send(self, take: Callable[[float], Sequence[WireEntry | Commit]], release: Callable[[], None]) -> None:
        """The sending thread; an error closes the connection, which ends the session."""
        try:
            beaten = self._beat()
            while True:
                wait_s = beaten + self._heartbeat_s - time.monotonic()
                if wait_s <= 0:
                    beaten = self._beat()
                    continue
                batch = take(wait_s)
                if batch:
                    self.caller.send_all(join_stream(batch, self.fed.protocol), _SILENCE_S)
        except FormatError as error:
            self.problem = RefusedError(
                "an entry of the log cannot be sent", file=self._engine.home, found=str(error), hint="run jetool verify"
            )
        except JetoolError as error:
            self.problem = error
        finally:
            release()
            self.close()

    def _beat(self) -> float:
        """Send a heartbeat; return the time."""
        assert self._engine.writer is not None
        # No heartbeat from a dead environment, so that the replica searches for another master.
        self._engine.writer.check()
        now, version = time.time_ns() // 1_000_000, self.fed.protocol
        self._beats += 1
        beat = Heartbeat(
            time_ms=now,
            txn_end_vlsn=max(self._index.range.last_txn_end, 0),
            id=self._beats if version >= _WITH_IDS else None,
            filtered_vlsn=0 if version >= _WITH_FILTERS else None,
            passed_vlsn=0 if version >= _WITH_FILTERS else None,
            commit_ms=0 if version >= _WITH_FILTERS else None,
            modified_ms=0 if version >= _WITH_FILTERS else None,
            sent_ms=now if version >= _WITH_TIMES else None,
        )
        self.caller.send_all(FEEDER.encode(beat, self.fed.protocol, client=False), _SILENCE_S)
        return time.monotonic()
