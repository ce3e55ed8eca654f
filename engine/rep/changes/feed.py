"""One connection to a master: questions about VLSNs, then entries and heartbeats (je-ha-protocol.md 8 to 10).

Messages that would end the master are excluded. The first question is for an entry, and each further question is for a
lower VLSN. No question is above the master's last VLSN once that is known. The stream begins at a VLSN that exists
according to an answer. After that only answers to heartbeats are sent.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.errors import JetoolError, NotFoundError
from engine.rep.changes.position import CommitPoint, Position
from engine.rep.client.feeder_stream import FeederStream
from engine.rep.client.handshake import FeederAgreement
from engine.rep.peers import PeerError
from engine.rep.wire.entries import WireEntry
from engine.rep.wire.feeder import AVAILABLE, DEFAULT, NOW, AlternateMatchpoint, Heartbeat

BEGIN: Final = "begin"
LATEST: Final = "now"
_FIRST: Final = 1


class LostPositionError(JetoolError):
    """The master no longer has the position at which the stream should continue."""

    exit_code = 7
    kind = "lost_position"


class RewrittenError(JetoolError):
    """The group's history differs from the one already yielded."""

    exit_code = 7
    kind = "rewritten"


class LongHistoryError(PeerError):
    """The master refuses to stream from VLSN 1 because it is too far back (je-ha-protocol.md 8.1)."""


class BehindError(PeerError):
    """The node claims to be master, but its log ends before those of others."""


class Batch(NamedTuple):
    """Received messages.

    Attributes:
        txn_end_vlsn: the master's last transaction end in a heartbeat; 0 if no heartbeat was received.
        is_silent: nothing was received.
    """

    entries: list[WireEntry]
    txn_end_vlsn: int
    is_silent: bool


class Feed:
    """A connection after the handshake.

    Arguments:
        joined: the handshake; this object takes over its call.

    Attributes:
        uuid: of the group.
        log_version: the version in which the feeder rewrites entries.
    """

    def __init__(self, joined: FeederAgreement) -> None:
        self._stream = FeederStream(joined)
        self.peer = self._stream.peer
        self.uuid = joined.uuid
        self.log_version = joined.log_version

    def close(self) -> None:
        """End it."""
        self._stream.close()

    def begin(self, wanted: str | int) -> int:
        """Start a new stream.

        Arguments:
            wanted: ``BEGIN``, ``LATEST`` or a VLSN.

        Returns:
            The first VLSN of the stream.

        Raises:
            LongHistoryError: the master refuses VLSN 1; VLSN 2 is possible over another connection.
            LostPositionError: the master no longer has the VLSN. NotFoundError: the master does not have it yet.
        """
        if not self._stream.has_typed_requests:
            start = self._untyped(wanted)
        elif wanted == LATEST:
            # With this type of request the answer is the last VLSN, whatever VLSN is requested.
            start = self._entry(_FIRST, NOW).vlsn + 1
        else:
            vlsn = _FIRST if wanted == BEGIN else int(wanted)
            answer = self._stream.ask(vlsn, AVAILABLE)
            if vlsn == _FIRST and answer is None:
                raise LongHistoryError(f"{self.peer} does not send its first entry")
            if not isinstance(answer, WireEntry):
                raise PeerError(f"{self.peer} has no stream", found=type(answer).__name__)
            if answer.vlsn > vlsn and wanted != BEGIN:
                raise self._lost(vlsn, f"the first is {answer.vlsn}")
            if answer.vlsn < vlsn - 1:
                raise _not_yet(vlsn, answer.vlsn)
            # The VLSN after the last one is allowed.
            start = max(answer.vlsn, vlsn)
        self._stream.start(start)
        return start

    def go_on(self, position: Position, *, may_retract: bool) -> CommitPoint | None:
        """Start the stream again at a position.

        Arguments:
            may_retract: the position may move backward if the group's history differs.

        Returns:
            The newest commit of the position that the group still has, if it is not the last commit; else None.

        Raises:
            LostPositionError: the master no longer has this position.
            RewrittenError: the master has another entry there, and the position must not move.
            BehindError: the master's log ends before the position, which must not move.
        """
        last = position.last
        if last is None:
            self._stream.start(self._begun(position.torn.start))
            return None
        answer = self._stream.ask(last.vlsn, DEFAULT)
        if answer is None:
            raise self._lost(last.vlsn, "it is gone")
        common = last
        if isinstance(answer, AlternateMatchpoint) or not last.is_same(answer):
            if not may_retract:
                raise self._other_history(last, answer)
            common = self._common(position, answer)
        # The stream may begin only where the master has an entry.
        if common.restart < common.vlsn and not isinstance(self._stream.ask(common.restart, DEFAULT), WireEntry):
            raise self._lost(common.restart, "it is gone; a transaction began there that was open at the last commit")
        self._stream.start(common.restart)
        return common if common is not last else None

    def receive(self, done_vlsn: int, wait_s: float) -> Batch:
        """Wait for the next messages; heartbeats are answered.

        Arguments:
            done_vlsn: VLSN of the last commit that was yielded.
            wait_s: longest wait.

        Raises:
            DisconnectedError: the stream has ended: the master has lost its role, or the group is shut down.
            PeerError: a message of the master is invalid.
        """
        entries: list[WireEntry] = []
        txn_end = 0
        is_silent = True
        for one in self._stream.receive(wait_s):
            is_silent = False
            if isinstance(one, Heartbeat):
                txn_end = max(txn_end, one.txn_end_vlsn)
                self._stream.report(done_vlsn)
            else:
                entries.append(one)
        return Batch(entries, txn_end, is_silent)

    def _common(self, position: Position, answer: WireEntry | AlternateMatchpoint) -> CommitPoint:
        """The newest commit of a position that the master also has."""
        # Request no VLSN above that of an alternate answer.
        below = answer.entry.vlsn + 1 if isinstance(answer, AlternateMatchpoint) else answer.vlsn
        for point in reversed(position.commits):
            if point.vlsn >= below:
                continue
            found = self._stream.ask(point.vlsn, DEFAULT)
            if isinstance(found, WireEntry) and point.is_same(found):
                return point
            if found is None:
                break
        oldest = position.commits[0].vlsn
        raise self._lost(position.commits[-1].vlsn, f"the history differs since before VLSN {oldest}")

    def _begun(self, start: int) -> int:
        """The start of a stream before its first entry; it may be the VLSN after the last one."""
        if not self._stream.has_typed_requests:
            answer = self._stream.ask(start, DEFAULT)
        else:
            answer = self._entry(start, AVAILABLE)
        found = answer.entry.vlsn if isinstance(answer, AlternateMatchpoint) else answer.vlsn if answer else start + 1
        if found > start:
            raise self._lost(start, "it is gone")
        if found < start - 1:
            raise BehindError(f"{self.peer} ends before VLSN {start}", found=f"VLSN {found}")
        return start

    def _untyped(self, wanted: str | int) -> int:
        """Find the start with the one type of request that older masters support."""
        if wanted == LATEST:
            # This VLSN is above every other, so the answer is the last VLSN from which a replica could continue.
            alternate = self._stream.ask((1 << 62), DEFAULT)
            if not isinstance(alternate, AlternateMatchpoint):
                raise PeerError(f"{self.peer} does not say where its stream ends")
            return alternate.entry.vlsn + 1
        vlsn = _FIRST if wanted == BEGIN else int(wanted)
        answer = self._stream.ask(vlsn, DEFAULT)
        if answer is None:
            raise self._lost(vlsn, "it is gone")
        if isinstance(answer, AlternateMatchpoint):
            raise _not_yet(vlsn, answer.entry.vlsn)
        return answer.vlsn

    def _entry(self, vlsn: int, kind: int) -> WireEntry:
        answer = self._stream.ask(vlsn, kind)
        if not isinstance(answer, WireEntry):
            raise PeerError(f"{self.peer} has no stream", found=type(answer).__name__)
        return answer

    def _lost(self, vlsn: int, why: str) -> LostPositionError:
        return LostPositionError(
            f"{self.peer} does not have VLSN {vlsn} any more",
            found=why,
            consequence="what came after it cannot be had as a stream",
            hint="jetool backup copies the group; then start again with --from now, and another state file",
        )

    def _other_history(self, last: CommitPoint, answer: WireEntry | AlternateMatchpoint) -> JetoolError:
        if isinstance(answer, AlternateMatchpoint):
            return BehindError(
                f"{self.peer} ends before the last durable commit",
                expected=f"VLSN {last.vlsn}",
                found=f"VLSN {answer.entry.vlsn}",
                hint="a master that is about to step down does so; was the group restored from a backup?",
            )
        return RewrittenError(
            f"{self.peer} has another commit at VLSN {last.vlsn}",
            consequence="the group has rolled back transactions delivered as durable; nothing more was delivered",
            hint="was it restored from a backup? Start again with another state file, or add --fast for retractions",
        )


def _not_yet(vlsn: int, found: int) -> NotFoundError:
    text = f"the group has not come to VLSN {vlsn} yet"
    return NotFoundError(text, found=f"its last is {found}", hint="add --from now for what comes next")
