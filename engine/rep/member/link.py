"""One connection of a replica with a master of JE, after the handshake (je-ha-protocol.md 8 and 9).

Messages that would end the master are excluded. The first message is a question, and each further question is for a
lower VLSN. The stream begins right after an entry that exists according to an answer, or at VLSN 1. Then only answers
leave.

A master requests acknowledgements only from ELECTABLE nodes. In its answers to heartbeats each node reports its
position, which includes only durable entries.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.errors import FormatError, UnsupportedError
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import LNS
from engine.format.vlsn import FIRST_VLSN, NULL_VLSN
from engine.rep.client.feeder_stream import FeederStream
from engine.rep.client.handshake import FeederAgreement
from engine.rep.peers import PeerError
from engine.rep.replay import StreamRecord
from engine.rep.stream import StreamEntry, to_stream
from engine.rep.syncup import Answer, AnswerKind
from engine.rep.wire.entries import WireEntry
from engine.rep.wire.feeder import DEFAULT, AlternateMatchpoint, Heartbeat


class MasterLink:
    """A connection after the handshake.

    Arguments:
        joined: the handshake; this object takes over its call.
        log_version: of this node's log.

    Attributes:
        heartbeats: number received; each needs a ``report``.
        master_vlsn: the last transaction end of the master, from its latest heartbeat.
        awaited: transactions whose received Commits must be acknowledged, with the requested sync policies.
    """

    def __init__(self, joined: FeederAgreement, log_version: int) -> None:
        self._stream = FeederStream(joined)
        self._log_version = log_version
        self.peer = self._stream.peer
        self.heartbeats = 0
        self.master_vlsn = NULL_VLSN
        self.awaited: list[tuple[int, int]] = []
        self._shown: int | None = None

    def close(self) -> None:
        """End the connection, even while another thread waits for the master."""
        self._stream.close()

    def ask(self, vlsn: int) -> Answer:
        """The master's entry at a VLSN, which must be lower than all requested before.

        Raises:
            DisconnectedError: the master has gone. PeerError: a message is invalid.
        """
        answer = self._stream.ask(vlsn, DEFAULT)
        if answer is None:
            return Answer(AnswerKind.NOT_FOUND)
        if isinstance(answer, AlternateMatchpoint):
            return Answer(AnswerKind.ALTERNATE, self._form(answer.entry))
        entry = self._form(answer)
        if entry.vlsn != vlsn:
            raise PeerError(f"{self.peer} answers with VLSN {entry.vlsn}", expected=str(vlsn))
        self._shown = vlsn
        return Answer(AnswerKind.ENTRY, entry)

    def start(self, vlsn: int) -> None:
        """Begin the stream: at VLSN 1, or after the last answer."""
        # Started at any other position, the master would wait forever, or end.
        assert self._shown is not None, vlsn
        assert vlsn in (FIRST_VLSN, self._shown + 1), (vlsn, self._shown)
        self._stream.start(vlsn)

    def receive(self) -> Iterator[StreamRecord]:
        """Wait for the next messages and return their entries.

        Raises:
            DisconnectedError: the stream has ended: the master has lost its role, or the group is shut down.
            PeerError: a message of the master is invalid.
            UnsupportedError: the entries have a log version that cannot be written here.
        """
        for one in self._stream.receive():
            if isinstance(one, Heartbeat):
                self.heartbeats += 1
                self.master_vlsn = max(self.master_vlsn, one.txn_end_vlsn)
                continue
            self._check_version(one)
            try:
                # Checked here, so that an invalid entry of the master is not mistaken for damage of this log.
                record = one.record()
            except FormatError as error:
                raise self._nonsense(error) from error
            policy = self._stream.awaits
            yield StreamRecord(one.vlsn, one.type_number, record)
            # Acknowledged after it has been replayed.
            if policy is not None and isinstance(record, TxnEnd):
                self.awaited.append((record.id, policy))

    def acknowledge(self, durable_vlsn: int) -> None:
        """Acknowledge the awaited transactions: they have the requested durability here.

        Arguments:
            durable_vlsn: the last transaction end that is durable here.
        """
        if self.awaited:
            self._stream.acknowledge(tuple(txn_id for txn_id, _ in self.awaited), durable_vlsn)
            self.awaited.clear()

    def report(self, txn_end_vlsn: int) -> None:
        """Report the position of this node: its last durable transaction end."""
        self._stream.report(txn_end_vlsn)

    def _form(self, entry: WireEntry) -> StreamEntry:
        self._check_version(entry)
        try:
            return to_stream(entry.vlsn, entry.type_number, entry.log_version, entry.body)
        except FormatError as error:
            raise self._nonsense(error) from error

    def _check_version(self, entry: WireEntry) -> None:
        # A feeder rewrites LNs in the agreed version; other entries may come as its log has them.
        if entry.log_version > self._log_version and entry.type_number in LNS:
            raise UnsupportedError(
                f"an entry of a later log version than was agreed has come from {self.peer}",
                expected=f"log version {self._log_version} or earlier",
                found=str(entry.log_version),
                consequence="this node cannot store it; no part of it was replayed",
            )

    def _nonsense(self, error: FormatError) -> PeerError:
        return PeerError(f"{self.peer} sends an entry that makes no sense", found=str(error))
