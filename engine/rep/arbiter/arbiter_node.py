"""A running arbiter of a group of JE, or of jetool (je-ha-protocol.md 15.3).

A round: inspect the group, connect to its master, and acknowledge the commits that the master sends until the
connection ends. The arbiter is never elected; it promises and accepts as any member does.

* An acknowledgement or a promise leaves only after it is on the disk. A promise shows the last acknowledged commit, and
  until the election ends no further commit is acknowledged.
* A master that an election has replaced gets no acknowledgement, even if it is still connected.
* If the arbiter has accepted another node and the result does not come, the proposer may be dead, or it leads where the
  arbiter cannot hear it. Then the arbiter holds an election itself: the old master is elected again, later than that
  acceptance, or replaced. JE's arbiter just continues with the old master, which can lose what it acknowledges.
* Before a master has made it a member, the arbiter promises nothing: a directory that was emptied has forgotten what
  was acknowledged.

Example: n1 leads, n2 is down. Commit 50 arrives: 50 is written and synced, then acknowledged. n1 dies and n2 starts: it
proposes, the promise shows 50, and n2, whose log ends at 47, is not elected.
"""

from __future__ import annotations

import contextlib
import time
from typing import Final

from engine.errors import JetoolError, RefusedError, UsageError
from engine.format.entry.txn_end import PRE_TERM, TxnEnd
from engine.format.entry_types import COMMIT
from engine.format.versions import MASTER_TERM, NEWEST_VERSION, WRITTEN_VERSION
from engine.format.vlsn import NULL_VLSN
from engine.rep.arbiter.arbiter_file import ArbiterCommit, ArbiterFile
from engine.rep.client.call import ask
from engine.rep.client.connection import Address, Network
from engine.rep.client.feeder_stream import FeederStream
from engine.rep.client.group_state import GroupLook, check_group, look
from engine.rep.client.handshake import UNKNOWN_UUID, NameInUseError, NodeIdentity, join
from engine.rep.client.tls import server_context
from engine.rep.group import Membership, check_name
from engine.rep.master.election import NO_NODE, Vote
from engine.rep.master.promises import PromiseFile
from engine.rep.member.config import JoinConfig
from engine.rep.member.elections import Voter
from engine.rep.member.monitors import Monitors
from engine.rep.member.rounds import Rounds, RunningMember
from engine.rep.peers import DisconnectedError, PeerError, address_text
from engine.rep.restore import holds_log
from engine.rep.services.port import Port, Service
from engine.rep.services.questions import NodeFacts, Questions
from engine.rep.status import NodeStatus, Role
from engine.rep.wire.election_lines import LEARNER, MasterAnswer, MasterQuery, Result
from engine.rep.wire.feeder import Heartbeat
from engine.rep.wire.group_lines import Members
from engine.storage.base import Storage

# JE's arbiters name this one. It plays no part, as nothing is suggested.
_PRIORITY: Final = -(1 << 31)
# Longest wait for a node that hangs.
_STEP_S: Final = 3.0


class ArbiterNode(RunningMember):
    """A running arbiter; ``start`` begins, ``stop`` ends.

    Arguments:
        storage: the directory of the arbiter.
        config: how it joins; its ``node_type`` is ``ARBITER``.
        network: how to get to the nodes of the group.
    """

    def __init__(self, storage: Storage, config: JoinConfig, network: Network) -> None:
        check_name("node", config.name)
        if config.group is not None:
            check_group(config.group)
        if not config.addresses:
            raise UsageError("an arbiter needs the address of a node of its group", hint="give --join")
        self.config = config
        self._storage = storage
        self._network = network
        self._file = ArbiterFile(storage)
        self._promises = PromiseFile(storage)
        self._step_s = min(config.timeout_s, _STEP_S)
        super().__init__(Rounds(config.name, self._round, self._leave, config.intervals, votes=True))
        self._stream: FeederStream | None = None
        self._group = config.group or ""
        self._uuid = UNKNOWN_UUID
        self._members: Members | None = None
        self._places = [place for place in config.addresses if place != config.listen]
        self._log_version = WRITTEN_VERSION
        self._master = self._master_name = ""
        self._master_vlsn = 0
        self._taken_since = self._awaits_since = 0.0
        self._monitors = Monitors(network, self.facts, config.timeout_s, config.intervals.monitors_s)
        self._voter = Voter(config, network, self.facts, self._vote, self._turn, self._promises.write)
        self._questions = Questions(self.facts, self._heard)
        tls = server_context(config.tls) if config.tls is not None else None
        self._port = Port(config.listen, self._services, tls)

    def start(self) -> None:
        """Read the files of the arbiter, and search for the master.

        Raises:
            JetoolError: as ``ArbiterFile.open``. RefusedError: the directory is that of an environment.
            StorageError: the address cannot be listened on.
        """
        if holds_log(self._storage):
            raise RefusedError(
                "the directory holds a log; an arbiter has none",
                file=self._storage.root,
                consequence="nothing was changed",
                hint="give the arbiter a directory of its own",
            )
        # Bind the address first: if it is in use, nothing may be created.
        self._port.bind()
        try:
            self._file.open()
            if self._file.state.has_terms:
                self._log_version = NEWEST_VERSION
            self._voter.acceptor.restore(self._promises.read())
            self._port.start()
        except JetoolError:
            self._port.close()
            self._file.close()
            raise
        self._rounds.start()

    def stop(self) -> None:
        """Leave the group."""
        self._rounds.stop()
        self._voter.acceptor.let_go()
        stream = self._stream
        if stream is not None:
            stream.close()
        self._rounds.join()
        self._monitors.left(failed=self.failure is not None)
        self._port.close()
        self._file.close()

    def status(self) -> NodeStatus:
        """The state of the arbiter, for reports; its VLSN is that of the last acknowledged commit."""
        commit = self._file.state.commit
        return NodeStatus(
            group=self._group,
            node=self.config.name,
            role=self.role.value,
            master=self._master,
            first_vlsn=NULL_VLSN,
            last_vlsn=commit.vlsn,
            last_sync=commit.vlsn,
            last_txn_end=commit.vlsn,
            dtvlsn=max(commit.dtvlsn, 0),
            replicas=(),
        )

    # What others ask for.

    def facts(self) -> NodeFacts:
        """The services for other nodes."""
        return NodeFacts(
            group=self._group,
            node=self.config.name,
            master=self._master_name,
            state=self.role.value.upper(),
            joined_ms=self._monitors.joined_ms,
            commit_vlsn=max(self._file.state.commit.vlsn, 0),
            master_commit_vlsn=self._master_vlsn,
            members=self._members,
            node_id=self._file.state.node_id,
            elected=self._voter.elected,
            log_version=self._log_version,
            # The list of members is a copy, which may lack the newest one.
            knows_all=False,
        )

    def _services(self) -> dict[str, Service]:
        return {**self._questions.services, **self._voter.acceptor.services}

    def _vote(self) -> Vote | None:
        if self._rounds.stopping or not self._file.is_member:
            return None
        commit = self._file.state.commit
        suggestion = NO_NODE._replace(port=self.config.listen[1])
        return Vote(suggestion, (commit.dtvlsn, commit.vlsn), _PRIORITY, commit.master_id, commit.term)

    def _turn(self) -> None:
        """An election had a new result: leave a master that was not elected."""
        stream = self._stream
        if stream is not None and not self._voter.is_elected(self._master_name):
            stream.close()
        self._rounds.notify()

    def _heard(self, result: Result) -> None:
        if result.value.node != self.config.name:
            self._voter.heard(result)

    # The main thread.

    def _round(self) -> None:
        """Acknowledge commits of the current master until it is gone."""
        found = self._look()
        address = found.master_address
        master = next((node for node in found.nodes if node.address == address), None)
        if address is None or master is None:
            raise DisconnectedError(f"group {found.group} has no master now")
        self._learn(address, master.name)
        if not self._voter.follows(master.name):
            self._settle(master.name)
            raise DisconnectedError(f"{master.name} is not known to be elected")
        if master.said is not None:
            self._log_version = min(max(self._log_version, master.said.log_version), NEWEST_VERSION)
        self._master, self._master_name = address_text(address), master.name
        self._stream = stream = self._join(address, found.group)
        # An election may have ended before the connection was there to be closed.
        self._voter.check(self._master_name)
        # The list of members now has this arbiter.
        with contextlib.suppress(JetoolError):
            self._look()
        self._rounds.problem = None
        self._voter.has_met_master()
        self._rounds.become(Role.REPLICA)
        self._monitors.joined()
        while not self._rounds.stopping:
            self._hear(stream)

    def _settle(self, master: str) -> None:
        """Hold an election if the result of an earlier one is overdue, and no member knows it."""
        members = Membership(*self._members) if self._members is not None else None
        mine = members.node(self.config.name) if members is not None else None
        if members is None or mine is None or not self._voter.awaits_result(master):
            self._awaits_since = 0.0
            return
        now = time.monotonic()
        self._awaits_since = self._awaits_since or now
        if now - self._awaits_since < self.config.intervals.promise_s:
            return
        self._voter.ask_around(self._group, members)
        if self._voter.awaits_result(master):
            self._voter.elect(members, mine)
        self._awaits_since = 0.0

    def _look(self) -> GroupLook:
        try:
            found = look(self._network, self._places, self.config.group, self._step_s)
        except (PeerError, RefusedError) as error:
            if self._members is None and not isinstance(error, DisconnectedError):
                # An address may be mistyped, or is that of another group.
                raise
            raise DisconnectedError("the group cannot be reached", found=str(error)) from error
        except JetoolError as error:
            raise DisconnectedError("the group cannot be reached", found=str(error)) from error
        self._group, self._members = found.group, found.members
        others = [node.address for node in found.nodes if node.address != self.config.listen]
        self._places = list(dict.fromkeys([*self._places, *others]))
        return found

    def _learn(self, address: Address, master: str) -> None:
        """Take the result of the election from the master itself."""
        try:
            answer = ask(self._network, address, LEARNER, self._group, MasterQuery(), self._step_s)
        except PeerError:
            return
        said = answer[1] if answer is not None else None
        if isinstance(said, MasterAnswer) and said.value.node == master:
            self._voter.learned(said)

    def _join(self, address: Address, group: str) -> FeederStream:
        """Go through the handshake, and keep the id of this member."""
        config = self.config
        identity = NodeIdentity(
            config.name,
            *config.listen,
            config.node_type,
            self._log_version,
            config.environment.cache_bytes,
            self._file.state.node_id,
        )
        try:
            joined = join(
                self._network, address, group, config.timeout_s, force=config.force, uuid=self._uuid, joining=identity
            )
        except NameInUseError as error:
            # After an interruption the master may consider the old connection alive.
            now = time.monotonic()
            self._taken_since = self._taken_since or now
            if now - self._taken_since > config.intervals.name_patience_s:
                raise
            raise DisconnectedError(error.what, found=error.found) from error
        self._taken_since, self._uuid = 0.0, joined.uuid
        try:
            self._file.note_member(joined.node_id, has_terms=joined.log_version >= MASTER_TERM)
        except JetoolError:
            joined.call.close()
            raise
        return FeederStream(joined)

    def _hear(self, stream: FeederStream) -> None:
        """Keep and acknowledge what has arrived.

        Raises:
            DisconnectedError: the master is gone, or was replaced. PeerError: a message of it is invalid.
            StorageError: the file cannot be written; nothing was acknowledged.
        """
        ends: list[tuple[int, TxnEnd]] = []
        has_heard = False
        for one in stream.receive():
            if isinstance(one, Heartbeat):
                has_heard, self._master_vlsn = True, max(self._master_vlsn, one.txn_end_vlsn)
                continue
            record = one.record()
            if one.type_number != COMMIT or not isinstance(record, TxnEnd):
                raise PeerError(
                    f"{stream.peer} sends an arbiter an entry that is no Commit", found=str(one.type_number)
                )
            ends.append((one.vlsn, record))
        if ends:
            vlsn = max(vlsn for vlsn, _ in ends)
            # A Commit of before log version 13 names no DTVLSN.
            dtvlsn = max(end.dtvlsn or vlsn for vlsn, end in ends)
            last = next(end for at, end in ends if at == vlsn)
            with self._voter.acceptor.committing():
                self._voter.check(self._master_name)
                self._file.keep(ArbiterCommit(vlsn, dtvlsn, last.master_id, last.master_term or PRE_TERM))
            stream.acknowledge(tuple(end.id for _, end in ends), vlsn)
        if has_heard:
            stream.report(self._file.state.commit.vlsn)

    def _leave(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
