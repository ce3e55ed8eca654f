"""The master's side of one replica: syncup, the stream, acknowledgements, files.

The thread of the connection answers questions until START, and then receives acknowledgements; a second thread sends.
What has just been logged is taken from the index's log items; what is older is read from the log. With nothing to send
for an interval it sends a heartbeat, so that both notice when the other is gone.

Example: ASK 90 -> ENTRY 90 | START 91 -> ENTRIES 91..140 | ACK 140 | HEARTBEAT 140 | ENTRIES 141..143 | ACK 143
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from engine.db.engine import Engine
from engine.errors import FormatError, JetoolError, NotFoundError
from engine.rep import messages
from engine.rep.acks import GroupGate
from engine.rep.frames import Channel, DisconnectedError, Frame
from engine.rep.messages import Heartbeat, Message, nonsense
from engine.rep.outflow import Outflow
from engine.rep.restore import send_files
from engine.rep.stream import StreamEntry, entry_at, to_stream
from engine.rep.syncup import Answer, AnswerKind, Feeder

_BATCH_BYTES: Final = 1 << 18
_BATCH_ENTRIES: Final = 1000
_SILENCE: Final = 15
# A replica that recovers or restores its files is silent for longer.
_SYNCUP_S: Final = 120.0
_ANSWERS: Final = {AnswerKind.ENTRY: Message.ENTRY, AnswerKind.ALTERNATE: Message.ALTERNATE}


class FeederSession:
    """Feeds one replica.

    Arguments:
        engine: the master's environment.
        gate: hears of the replica and its acknowledgements.
        channel: the connection, past the handshake.
        node: name of the replica.
        heartbeat_s: longest silence; after fifteen times that the replica is given up.
        joined: called when the stream has begun.
    """

    def __init__(
        self,
        engine: Engine,
        gate: GroupGate,
        channel: Channel,
        node: str,
        heartbeat_s: float,
        joined: Callable[[], None],
    ) -> None:
        assert engine.vlsn_index is not None
        self._engine = engine
        self._index = engine.vlsn_index
        self._gate = gate
        self._channel = channel
        self.node = node
        self._heartbeat_s = heartbeat_s
        self._joined = joined
        self._syncup = Feeder(engine, self._form)
        self._sender: threading.Thread | None = None
        self.fed = False

    def run(self) -> None:
        """Serve until the replica is gone.

        Raises:
            JetoolError: the replica says what makes no sense, or has gone; the log cannot be read.
        """
        # Syncup may roll back what the replica acknowledged in an earlier session.
        self._gate.forget(self.node)
        assert self._engine.cleaner is not None
        # The matchpoint may be anywhere; when the stream begins its reader protects what it has not read (R-CLN-41).
        syncup = self._engine.cleaner.protect_from(f"the syncup of {self.node}", 0)
        try:
            while True:
                frame = self._channel.receive(self._heartbeat_s * _SILENCE if self.fed else _SYNCUP_S)
                try:
                    self._hear(frame)
                    if self.fed:
                        syncup.release()
                except FormatError as error:
                    raise nonsense(self._channel.peer, error) from error
        except JetoolError as error:
            self._tell(error)
            raise
        finally:
            syncup.release()
            # Closing the connection ends the sender too; only then can it be joined.
            self.close()
            if self.fed:
                self._gate.disconnected(self.node)
            if self._sender is not None:
                self._sender.join()

    def promote(self) -> None:
        """Tell the replica to become the master after what it has."""
        self._channel.send(Message.PROMOTE)

    def close(self) -> None:
        """End the connection."""
        self._channel.close()

    def _hear(self, frame: Frame) -> None:
        if frame.type == Message.ACK and self.fed:
            self._gate.acked(self.node, messages.decode_vlsn(frame.payload))
        elif self.fed:
            raise nonsense(self._channel.peer, f"message {frame.type}")
        elif frame.type == Message.ASK:
            self._answer(*messages.decode_ask(frame.payload))
        elif frame.type == Message.RESTORE:
            send_files(self._engine, self._channel)
        elif frame.type == Message.START:
            self._start(messages.decode_vlsn(frame.payload))
        else:
            raise nonsense(self._channel.peer, f"message {frame.type}")

    def _answer(self, vlsn: int, first: bool) -> None:
        if first:
            self._syncup = Feeder(self._engine, self._form)
        answer: Answer = self._syncup.answer(vlsn)
        if answer.entry is None:
            self._channel.send(Message.NOT_FOUND)
        else:
            self._channel.send(_ANSWERS[answer.kind], messages.encode_entry(answer.entry))

    def _start(self, vlsn: int) -> None:
        reader = Outflow(self._engine, vlsn)
        # After the reader is there: a replica that cannot be fed must not let commits begin.
        self.fed = True
        self._gate.connected(self.node)
        self._sender = threading.Thread(target=self._send, args=(reader,), name=f"feeder {self.node}", daemon=True)
        self._sender.start()
        self._joined()

    def _send(self, reader: Outflow) -> None:
        """The sending thread; an error ends the connection, and with it the session."""
        try:
            while True:
                self._send_some(reader)
        except JetoolError as error:
            self._tell(error)
        finally:
            reader.close()
            self.close()

    def _send_some(self, reader: Outflow) -> None:
        """Wait for something, and send what there is."""
        batch = reader.next_batch(int(self._heartbeat_s * 1000), _BATCH_BYTES, _BATCH_ENTRIES)
        if batch:
            self._channel.send(Message.ENTRIES, messages.encode_entries([to_stream(*entry) for entry in batch]))
            return
        # No heartbeat from a dead environment: the replica shall look for another master.
        self._gate_check()
        beat = Heartbeat(int(time.time() * 1000), self._index.range.last, self._gate.dtvlsn)
        self._channel.send(Message.HEARTBEAT, messages.encode_heartbeat(beat))

    def _gate_check(self) -> None:
        """An environment that has failed, or is closed, feeds nobody."""
        assert self._engine.writer is not None
        self._engine.writer.check()

    def _form(self, vlsn: int) -> StreamEntry:
        return entry_at(self._engine, vlsn)[1]

    def _tell(self, error: JetoolError) -> None:
        """Say why the connection ends, if the replica is still there."""
        if isinstance(error, DisconnectedError):
            return
        try:
            self._channel.send(Message.FAILED, messages.encode_text(str(error)))
        except (DisconnectedError, NotFoundError):
            return
