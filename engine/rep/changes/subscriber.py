"""The stream of changes, across connections and masters.

When a connection ends, received entries that were not yielded are dropped, and the next connection continues at the
position of the last yielded transaction. So a new master, a cut in the middle of a message and a start from a file are
handled alike.

* *Durable* (the default): a transaction is yielded when a later Commit shows that a majority has it. Then no election
  takes the transaction back, and a master that lacks it soon loses its role.
* *Fast*: at once. If the next master has another history, a ``Retraction`` gives the commit after which the yielded
  transactions are invalid, and the transactions of the new history follow.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final, NamedTuple

from engine.errors import FormatError, JetoolError, NotFoundError, RefusedError, plural
from engine.rep.changes.assembly import MEMORY_BYTES, Assembler, TxnAssembly
from engine.rep.changes.database_names import DatabaseNames, NameChange, NamedDatabase, Undo
from engine.rep.changes.feed import BehindError, Feed, LongHistoryError
from engine.rep.changes.position import Position, Torn
from engine.rep.changes.transactions import CommittedTransaction, name_records
from engine.rep.client.call import ServiceError, TurnedAwayError
from engine.rep.client.connection import Address, Network
from engine.rep.client.group_state import look
from engine.rep.client.handshake import UNKNOWN_UUID, NameInUseError, join
from engine.rep.peers import DisconnectedError, PeerError

# The group database: the one database whose id is the same everywhere (je-ha-protocol.md 14).
_GROUP_DATABASE: Final = -257
KNOWN: Final = {_GROUP_DATABASE: NamedDatabase("_jeRepGroupDB", duplicates=False)}
_SECOND: Final = 2
_SLICE_S: Final = 0.2
_CLOCK_MS: Final = 2000
# Least number of entries from which a mean length is computed.
_FEW_ENTRIES: Final = 100
# Errors of a master that does not have the stream, or does not have it now: another master is searched for.
_PASSING: Final = (DisconnectedError, ServiceError, NameInUseError, BehindError)


class StalledError(JetoolError):
    """The unread part of the stream grows, and the master has to keep files for it."""

    exit_code = 7
    kind = "stalled"


class NoMasterError(JetoolError):
    """No master was found for too long."""

    exit_code = 7
    kind = "disconnected"


class Retraction(NamedTuple):
    """The group has another history: transactions yielded after a commit are invalid.

    Attributes:
        to_vlsn: the commit; transactions up to it remain valid.
        from_vlsn: the last yielded commit.
        commits: number of retracted commits.
    """

    to_vlsn: int
    from_vlsn: int
    commits: int


class Quiet(NamedTuple):
    """Nothing more can be yielded now: an opportunity to flush, to save the position, or to stop.

    Attributes:
        caught_up: all commits of the master were received and yielded.
        held: number of complete transactions that are not known to be durable yet.
        why: why the stream is not caught up; empty if it is caught up.
    """

    caught_up: bool
    held: int = 0
    why: str = ""


Event = CommittedTransaction | Retraction | Quiet


class SubscriberSettings(NamedTuple):
    """How to follow a group.

    Attributes:
        group: the name of the group; None to take it from the nodes.
        durable: yield only transactions that no election can take back.
        timeout_s: timeout of each step before the stream.
        patience_s: longest time without a master.
        hold_bytes: most bytes by which the unread part may grow.
        memory_bytes: most bytes of entries kept in memory.
        force: accept releases of JE that were never tested.
        first_pause_s, longest_pause_s: after a failed connection; each such pause is twice the one before.
        durable_wait_s: longest wait for a durable VLSN. A master logs it about two seconds after the last commit
            (je-ha-protocol.md 9).
    """

    group: str | None = None
    durable: bool = True
    timeout_s: float = 10.0
    patience_s: float = 300.0
    hold_bytes: int = 1 << 30
    memory_bytes: int = MEMORY_BYTES
    force: bool = False
    first_pause_s: float = 0.5
    longest_pause_s: float = 8.0
    durable_wait_s: float = 15.0


class Subscriber:
    """Follows a group.

    Arguments:
        network: opens connections to the nodes.
        addresses: addresses of one or more nodes; the others are found from them.
        settings: how.
        begin: a position to continue from, or the start of a new stream: ``feed.BEGIN``, ``feed.LATEST`` or a VLSN.
        notice: called with messages for the user: the text, and the details.

    Attributes:
        position: position of the last yielded event; None before the first connection of a new stream.
        entries: number of received entries.
        connections: number of connections made.
        newest_vlsn: the highest VLSN received in the current history; repeated entries do not raise it.
    """

    def __init__(
        self,
        network: Network,
        addresses: Sequence[Address],
        settings: SubscriberSettings,
        begin: Position | str | int,
        notice: Callable[[str, str], None],
    ) -> None:
        self._network = network
        self._addresses = list(addresses)
        self._settings = settings
        self._begin = begin
        self._notice = notice
        self.position: Position | None = None
        self.entries = 0
        self.connections = 0
        self.newest_vlsn = 0
        self._bytes = 0
        self._names = DatabaseNames(KNOWN)
        self._held: deque[TxnAssembly] = deque()
        self._least_unread: int | None = None
        self._fresh = False
        self._missing_since = 0.0
        if isinstance(begin, Position):
            self.position = begin
            self._names = DatabaseNames(KNOWN | begin.names)

    def events(self) -> Generator[Event, None, None]:
        """Transactions, retractions and quiet moments, without end. Closing the iterator leaves the group.

        After an event, ``position`` is the position after it: save it once the event is processed.

        Raises:
            NotFoundError: no node answers, or the start position does not exist yet.
            LostPositionError, RewrittenError: as ``Feed``.
            StalledError: the caller does not keep up with the group.
            NoMasterError: there was no master for longer than ``patience_s``.
            PeerError, RefusedError, UnsupportedError: a node belongs to another group, or refuses this node.
        """
        self._missing_since = time.monotonic()
        pause = first_s = self._settings.first_pause_s
        while True:
            try:
                feed = self._connect()
                try:
                    yield from self._follow(feed)
                finally:
                    feed.close()
            except _PASSING as error:
                if self.position is None and isinstance(error, TurnedAwayError):
                    raise
                problem: JetoolError = error
            except NotFoundError as error:
                # At the beginning the address may be mistyped; later all nodes may be down for a while.
                if self.position is None:
                    raise
                problem = error
            now = time.monotonic()
            if not self._missing_since:
                self._missing_since, pause = now, first_s
                self._notice("the stream was cut and goes on", str(problem))
            if now - self._missing_since + pause > self._settings.patience_s:
                raise NoMasterError(
                    f"no master for {self._settings.patience_s:g} s",
                    found=str(problem),
                    consequence="the position is kept",
                    hint="jetool group show shows which nodes answer; run the command again to continue",
                ) from problem
            until = now + pause
            while time.monotonic() < until:
                # While there is no master, the caller regularly gets a chance to do something else, or to stop.
                yield Quiet(caught_up=False, why=str(problem))
                time.sleep(min(pause, _SLICE_S))
            pause = min(2 * pause, self._settings.longest_pause_s)

    def locate(self) -> Position:
        """The position at which a new stream would begin now, for starting it later. Raises what ``events`` raises."""
        events = self.events()
        for _ in events:
            if self.position is not None:
                break
        events.close()
        assert self.position is not None
        found = self.position
        return Position(found.group, found.uuid, Torn(found.torn.start), [], KNOWN, [])

    def _connect(self) -> Feed:
        found = look(self._network, self._addresses, self._settings.group, self._settings.timeout_s)
        if self.position is not None and found.group != self.position.group:
            raise RefusedError(
                "the nodes are of another group than the stream", expected=self.position.group, found=found.group
            )
        # Later the group can be found through any of its nodes, even if one of the given nodes is gone.
        self._addresses = list(dict.fromkeys([*self._addresses, *(node.address for node in found.nodes)]))
        address = found.master_address
        if address is None:
            raise DisconnectedError(f"group {found.group} has no master now")
        feed = self._joined(address, found.group)
        if self.position is not None:
            return feed
        begin = self._begin if isinstance(self._begin, str | int) else 0
        try:
            try:
                start = feed.begin(begin)
            except LongHistoryError:
                feed.close()
                feed = self._joined(address, found.group)
                start = feed.begin(_SECOND)
        except BaseException:
            feed.close()
            raise
        self.position = Position(found.group, feed.uuid, Torn(start), [], KNOWN, [])
        self._fresh = True
        return feed

    def _joined(self, address: Address, group: str) -> Feed:
        uuid = self.position.uuid if self.position is not None else UNKNOWN_UUID
        joined = join(self._network, address, group, self._settings.timeout_s, force=self._settings.force, uuid=uuid)
        self.connections += 1
        if abs(joined.clock_ms) >= _CLOCK_MS:
            self._notice("the master's clock differs, and times are taken from it", f"{joined.clock_ms} ms ahead")
        return Feed(joined)

    def _follow(self, feed: Feed) -> Iterator[Event]:
        position = self.position
        assert position is not None
        if self._fresh:
            # The stream started by ``feed.begin`` is already running.
            self._fresh = False
        else:
            common = feed.go_on(position, may_retract=not self._settings.durable)
            if common is not None:
                yield self._retract(position, common.vlsn)
        last = position.last
        done = last.vlsn if last is not None else 0
        assembler = Assembler(position.torn, done, feed.log_version, self._settings.memory_bytes)
        assembler.start(position.restart)
        self._held.clear()
        unsaid_since = said_at = 0.0
        try:
            while True:
                batch = feed.receive(done, _SLICE_S)
                if batch.is_silent:
                    yield Quiet(caught_up=False, why=f"{feed.peer} is silent")
                    continue
                # Received entries prove that the node is the master and has the position.
                self._missing_since = 0.0
                self.entries += len(batch.entries)
                self._bytes += sum(len(entry.body) for entry in batch.entries)
                try:
                    self._held.extend(assembler.take(batch.entries))
                    done_before = done
                    for transaction in self._deliverable(assembler):
                        yield transaction
                        done = transaction.point.vlsn
                except FormatError as error:
                    raise PeerError(f"{feed.peer} sends a stream that makes no sense", found=str(error)) from error
                position.torn = assembler.torn
                self.newest_vlsn = max(self.newest_vlsn, assembler.last_vlsn)
                if batch.txn_end_vlsn:
                    self._check_lag(batch.txn_end_vlsn - assembler.last_vlsn)
                    unsaid_since = self._check_durability(assembler, unsaid_since)
                    # The last of the master's own commits is never reported as durable.
                    waiting = sum(not gathered.is_empty for gathered in self._held)
                    yield self._quiet(feed.peer, waiting, announced=batch.txn_end_vlsn, last=assembler.last_vlsn)
                    said_at = time.monotonic()
                elif done > done_before or time.monotonic() - said_at >= _SLICE_S:
                    yield Quiet(caught_up=False, why=f"{feed.peer} does not say how far it is")
                    said_at = time.monotonic()
        finally:
            assembler.close()

    @staticmethod
    def _quiet(peer: str, waiting: int, *, announced: int, last: int) -> Quiet:
        if announced > last:
            return Quiet(caught_up=False, why=f"{peer} has announced VLSN {announced} and sent up to {last}")
        if waiting:
            why = f"{plural(waiting, 'transaction')} not known to be durable yet"
            return Quiet(caught_up=False, held=waiting, why=why)
        return Quiet(caught_up=True)

    def _deliverable(self, assembler: Assembler) -> Iterator[CommittedTransaction]:
        """Yield the transactions that may be yielded, in commit order; the position advances with each."""
        position = self.position
        assert position is not None
        while self._held:
            gathered = self._held[0]
            point = gathered.point
            if self._settings.durable and point.vlsn > assembler.durable:
                return
            self._held.popleft()
            changes: dict[int, NameChange] = {}
            undo: Undo = {}
            if gathered.named:
                records = name_records(gathered)
                found, undo = self._names.apply([record for _, record in records])
                changes = {vlsn: change for (vlsn, _), change in zip(records, found, strict=True)}
            assert gathered.commit is not None
            position.commits.append(point)
            if undo:
                position.names = self._names.all()
                oldest = position.commits[0].vlsn
                position.undos = [one for one in position.undos if one[0] >= oldest]
                position.undos.append((point.vlsn, undo))
            yield CommittedTransaction(
                point, gathered.commit[1].time, gathered, self._names, changes, torn=gathered.torn
            )
            assembler.release(gathered)

    def _retract(self, position: Position, to_vlsn: int) -> Retraction:
        last = position.last
        assert last is not None
        count = 0
        while position.commits[-1].vlsn > to_vlsn:
            position.commits.pop()
            count += 1
        while position.undos and position.undos[-1][0] > to_vlsn:
            self._names.take_back(position.undos.pop()[1])
        position.names = self._names.all()
        self.newest_vlsn = to_vlsn
        return Retraction(to_vlsn, last.vlsn, count)

    def _check_lag(self, unread: int) -> None:
        """Leave the group if it would have to keep more and more files for a caller that does not keep up."""
        least = min(self._least_unread, unread) if self._least_unread is not None else unread
        self._least_unread = max(least, 0)
        if self.entries < _FEW_ENTRIES:
            return
        grown = (unread - self._least_unread) * self._bytes // self.entries
        if grown > self._settings.hold_bytes:
            raise StalledError(
                "the output is slower than the group",
                expected=f"up to {plural(self._settings.hold_bytes, 'byte')} more to be read",
                found=f"about {grown}",
                consequence="the connection was ended, since the master keeps its files for it; the position is kept",
                hint="run it again once there is room; --max-hold allows more",
            )

    def _check_durability(self, assembler: Assembler, since: float) -> float:
        """Commits of old groups hold no durable VLSN, so waiting for one would never end."""
        if assembler.durable > 0 or all(gathered.is_empty for gathered in self._held):
            return 0.0
        now = time.monotonic()
        if since and now - since > self._settings.durable_wait_s:
            raise RefusedError(
                "the commits of this group do not say what is durable",
                consequence="nothing could ever be handed out",
                hint="add --fast, which also delivers transactions that are not durable yet, and reports forks",
            )
        return since or now
