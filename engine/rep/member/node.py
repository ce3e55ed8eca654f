"""A jetool node in a group of JE: a SECONDARY follows the master; an ELECTABLE member follows or leads.

A round: inspect the group, connect to its master, find where both logs agree, roll back the entries that only this node
has, and replay the stream until the connection ends. The next round may find another master. Errors that waiting cannot
fix (another group, a name in use, damage, a forbidden rollback) stop the node; ``failure`` holds the error.

* The master knows a SECONDARY only while it is connected; nothing is written in the group.
* An ELECTABLE node becomes a member. It acknowledges commits, votes, and holds an election if there is no master
  (``engine.rep.member.elections``). If it is elected, it leads in the same environment (``engine.rep.master``). If
  another node is elected, its own term ends, the log is recovered, and the next round follows the new master.
* A node with ``create`` makes a new group with itself as the only member, if no group exists. JVMs join it as they join
  any master.

Example, after a fork: the master has no VLSN 120 and answers with its Commit 100, which differs from the one here; 96
agrees. If only LNs follow 96, they are rolled back in the log. If a Commit or Abort follows, the log is cut at 96 and
reopened, and a second round begins the stream.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from engine.db.environment import Environment
from engine.errors import JetoolError, RefusedError, UsageError
from engine.events import SILENT, Listener
from engine.format.versions import MASTER_TERM
from engine.rep.client.connection import Address, Network
from engine.rep.client.group_state import check_group
from engine.rep.client.tls import server_context
from engine.rep.group import check_name, committed_members
from engine.rep.master.election import Herald, Vote, running_master
from engine.rep.master.group_changes import GroupChanges
from engine.rep.master.term import Leadership, check_member
from engine.rep.member.config import JoinConfig
from engine.rep.member.elections import Voter
from engine.rep.member.home import Home
from engine.rep.member.link import MasterLink
from engine.rep.member.master_search import Seeker
from engine.rep.member.monitors import Monitors
from engine.rep.member.replica_stream import SYNC_INTERVAL_S, ReplicaStream
from engine.rep.member.rounds import Rounds, RunningMember
from engine.rep.peers import DisconnectedError, address_text
from engine.rep.replay import Replay
from engine.rep.rollback import SoftRollback
from engine.rep.services.copies import EngineFiles, FileList, LogFileServer
from engine.rep.services.port import Port, Service
from engine.rep.services.questions import NodeFacts, Questions
from engine.rep.services.record_requests import RecordRequests
from engine.rep.status import NodeStatus, Role
from engine.rep.syncup import Action, find_plan
from engine.rep.wire.election_lines import MasterAnswer, Result, Suggestion
from engine.rep.wire.group_lines import Members
from engine.rep.wire.lines import TextMessage
from engine.storage.base import Storage
from engine.vlsn.vlsn_range import VLSNRange


class JoinedNode(RunningMember):
    """A running node; ``start`` begins, ``stop`` ends.

    Arguments:
        storage: the directory of the environment.
        config: how it joins.
        network: how to get to the nodes of the group.
        listener: receives progress of the steps of recovery, rollback and restore.
    """

    def __init__(self, storage: Storage, config: JoinConfig, network: Network, listener: Listener = SILENT) -> None:
        check_name("node", config.name)
        if config.group is not None:
            check_group(config.group)
        self.config = config
        self._network = network
        self._listener = listener
        rounds = Rounds(
            config.name, self._round, self._leave, config.intervals, votes=config.votes, is_due=self._is_due
        )
        super().__init__(rounds)
        self._home = Home(storage, config, network, listener, lambda: rounds.stopping)
        self._link: MasterLink | None = None
        self._replay: Replay | None = None
        self._term: Leadership | None = None
        self._herald: Herald | None = None
        # A node promises nothing while its log may be cut.
        self._settled = True
        self._master = self._master_name = ""
        self._master_vlsn = 0
        self._seeker = Seeker(config, network, self._home)
        self._monitors = Monitors(network, self.facts, config.timeout_s, config.intervals.monitors_s)
        self._elected: MasterAnswer | None = None
        voter = Voter(config, network, self.facts, self._vote, self._turn, self._home.keep)
        self._voter = voter if config.votes else None
        self._questions = Questions(self.facts, *((self._heard, self._change) if config.votes else ()))
        self._copies = LogFileServer(self)
        self._records = RecordRequests(self)
        tls = server_context(config.tls) if config.tls is not None else None
        self._port = Port(config.listen, self._services, tls) if config.answers else None

    # What callers use.

    @property
    def environment(self) -> Environment:
        """The environment; replaced by another object after a rollback or restore, and after a term as master.

        Raises:
            RefusedError: there is no master now.
        """
        env = self._home.env
        if env is None:
            raise RefusedError("the node has no environment open now", hint="try again when it follows a master")
        return env

    def start(self) -> None:
        """Open the environment if it exists, and search for the master.

        Raises:
            JetoolError: as ``Home.open``. UsageError: a group must be created, and no name is given. RefusedError: the
                environment belongs to another group, or no address is given and its group does not have this node.
        """
        if self.config.forms and self.config.group is None and self._home.is_empty:
            raise UsageError("a new group needs a name", hint="give --group")
        # Bind the address first: if it is in use, nothing may be created or recovered.
        if self._port is not None:
            self._port.bind()
        try:
            # A node that listens and has a group reports it: nodes that would create a group rely on that.
            self._home.open_if_there()
            if self._voter is not None:
                self._voter.acceptor.restore(self._home.promises())
            self._seeker.wanted()
            if not self.config.addresses and self._home.env is not None and not self._home.has_no_group:
                # No address leads to a node that could make it a member.
                check_member(self._home.env, self.config.name, self.config.listen)
            if self._port is not None:
                self._port.start()
            if self.config.forms and self._home.has_no_group and not self._seeker.is_there():
                self._home.form(self._seeker.group)
        except JetoolError:
            if self._port is not None:
                self._port.close()
            self._home.close()
            raise
        self._rounds.start()

    def stop(self) -> None:
        """Leave the group, and close the environment."""
        self._rounds.stop()
        if self._voter is not None:
            self._voter.acceptor.let_go()
        if self._link is not None:
            self._link.close()
        self._rounds.join()
        self._monitors.left(failed=self.failure is not None)
        if self._port is not None:
            self._port.close()
        self._copies.end_all()
        self._home.close()

    def await_vlsn(self, vlsn: int, timeout_s: float) -> bool:
        """Wait until a VLSN is durable on this node; False after the timeout."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0 and self.failure is None:
            replay = self._replay
            if replay is not None:
                if replay.await_vlsn(vlsn, min(left, 1.0)):
                    return True
            elif self.role is Role.MASTER and self.stream_range().last >= vlsn:
                return True
            else:
                self.await_end(min(left, SYNC_INTERVAL_S))
        return False

    def status(self) -> NodeStatus:
        """The node's state, for reports."""
        replay, term, members, found = self._replay, self._term, self._home.members(), self.stream_range()
        dtvlsn = max(replay.dtvlsn, 0) if replay is not None else 0
        return NodeStatus(
            group=(members.group.name if members is not None else self.config.group) or "",
            node=self.config.name,
            role=self.role.value,
            master=self._master,
            first_vlsn=found.first,
            last_vlsn=found.last,
            last_sync=found.last_sync,
            last_txn_end=found.last_txn_end,
            dtvlsn=term.gate.dtvlsn if term is not None else dtvlsn,
            replicas=term.replicas() if term is not None else (),
        )

    # What others ask for.

    def facts(self) -> NodeFacts:
        """The services for other nodes."""
        env, term, found = self._home.env, self._term, self.stream_range()
        members = term.members if term is not None else committed_members(env.engine) if env is not None else None
        return NodeFacts(
            group=self._seeker.group,
            node=self.config.name,
            master=self._master_name,
            state=self.role.value.upper(),
            joined_ms=self._monitors.joined_ms,
            commit_vlsn=found.last_txn_end,
            master_commit_vlsn=0 if term is not None else self._master_vlsn,
            members=Members(*members) if members is not None else None,
            node_id=self._seeker.node_id,
            elected=self._voter.elected if self._voter is not None else self._elected,
            feeders=self.feeders(),
            log_version=self._home.log_version,
        )

    def node_id(self) -> int:
        """The id of the node, while it follows or leads."""
        return self._seeker.node_id

    def feeders(self) -> int:
        """Number of replicas that the node feeds."""
        term = self._term
        return term.feeders if term is not None else 0

    def stream_range(self) -> VLSNRange:
        """The part of the stream in the node's log."""
        return self._home.stream_range

    def begin_copy(self) -> FileList:
        """Begin a copy of the log files."""
        env = self._home.env
        if env is None:
            raise RefusedError("this node has no log yet")
        return EngineFiles(env.engine, lambda: self._home.env.engine if self._home.env is not None else None)

    def _services(self) -> dict[str, Service]:
        found = {**self._questions.services, **self._copies.services, **self._records.services}
        term, voter = self._term, self._voter
        if voter is not None and self._home.env is not None:
            found |= voter.acceptor.services
        return found | term.services if term is not None and self.role is Role.MASTER else found

    def _vote(self) -> Vote | None:
        """The vote of this node; None while its log may be cut."""
        if self._home.env is None or not self._settled or self._rounds.stopping:
            return None
        term, own, has_terms = self._term, self._home.own_record(), self._home.log_version >= MASTER_TERM
        # The others may have made it a member before its own log has the record: then it votes, but cannot lead yet.
        node_id, priority = (own[1].id, self.config.priority) if own is not None else (self._seeker.node_id, 0)
        mine = Suggestion(*self.config.listen, self.config.name, node_id)
        assert self._voter is not None
        # A master without followers may have been replaced, so only its log counts.
        if term is not None and self._voter.is_master and term.gate.has_majority:
            return running_master(mine, has_terms=has_terms)
        replay = self._replay
        durable = term.gate.dtvlsn if term is not None else max(replay.dtvlsn if replay is not None else 0, 0)
        ranking = max(durable, self._home.dtvlsn), max(self.stream_range().last, 0)
        began = (replay.master_term if replay is not None else 0) or self._home.master_term
        began = term.began_ms if term is not None else began
        return Vote(mine, ranking, priority, node_id, began if has_terms else None)

    def _turn(self) -> None:
        """An election had a new result: stop leading, or following, a node that was not elected."""
        voter = self._voter
        assert voter is not None
        term, link = self._term, self._link
        self._rounds.notify()
        if term is not None and not voter.is_master:
            term.gate.close("another node was elected")
        if link is not None and not voter.is_elected(self._master_name):
            link.close()

    def _heard(self, result: Result) -> None:
        """Accept an announced result unless it elects this node before it is a member."""
        assert self._voter is not None
        if result.value.node != self.config.name or self._home.own_record() is not None:
            self._voter.heard(result)

    def _change(self, message: TextMessage) -> TextMessage:
        term = self._term
        if term is None:
            raise RefusedError("this node is not the master now")
        return GroupChanges(term, self._announce).answer(message)

    def _announce(self, result: Result) -> None:
        """Make another node the master; it is notified first, and this node last."""
        assert self._voter is not None
        if self._herald is not None:
            self._herald.close()
            self._herald.tell(result)
        self._voter.heard(result)

    # The main thread.

    def _is_due(self) -> bool:
        """Whether this node was elected and can lead."""
        return self._voter is not None and self._voter.is_master and self._home.env is not None

    def _round(self) -> None:
        """Lead, or follow the current master until it is gone; return when another round is needed."""
        voter = self._voter
        if voter is not None and self._home.env is not None and self._is_due():
            self._lead(voter, self._home.env)
            return
        try:
            found = self._seeker.look()
        except DisconnectedError:
            if voter is None or self._home.own_record() is None:
                raise
            # All other nodes may be down, and the only member of a group needs no others.
            self._elect()
            return
        address = found.master_address
        master = next((node for node in found.nodes if node.address == address), None)
        if address is None or master is None:
            self._seeker.check_followers(found)
            self._elect()
            return
        answer = self._seeker.learned(address, master.name)
        if voter is None:
            self._elected = answer
        else:
            if answer is not None:
                voter.learned(answer)
            if not voter.follows(master.name) and self._home.own_record() is not None:
                self._elect()
                return
        with self._unsettled():
            if self._home.env is None:
                self._home.begin(found, master, lambda: self._admitted(address))
            env = self._home.env
            if env is None or self._rounds.stopping:
                return
            self._master, self._master_name = address_text(address), master.name
            self._link = link = self._seeker.join(address)
            plan = find_plan(env.engine, link.ask)
            if plan.action is Action.SOFT_ROLLBACK and plan.matchpoint is not None:
                rollback = SoftRollback(env.engine, plan.matchpoint, self._listener)
                if self.stream_range().last > plan.matchpoint.vlsn:
                    with self._copies.log_changes():
                        rollback.run()
            if plan.action not in (Action.START, Action.SOFT_ROLLBACK):
                # Syncup starts over, maybe with higher VLSNs, which needs a new connection.
                link.close()
                with self._copies.log_changes():
                    self._home.begin_again(plan, found, master)
                return
            self._replay = replay = Replay(env.engine)
        link.start(plan.start)
        self._seeker.has_followed, self._rounds.problem = True, None
        self._follow(env, link, replay)

    def _admitted(self, address: Address) -> None:
        """A secondary tests before it copies whether the master refuses it. A member does not, since it would count as
        a connected replica during the copy.
        """
        if self._voter is None:
            self._seeker.join(address).close()

    @contextmanager
    def _unsettled(self) -> Iterator[None]:
        """A block in which the log may be cut: no promise is open, and no promise is given."""
        with self._voter.acceptor.committing() if self._voter is not None else nullcontext():
            self._settled = False
        try:
            yield
        finally:
            self._settled = True

    def _elect(self) -> None:
        """Hold an election, if this node has a vote."""
        own = self._home.own_record()
        if self._voter is None or own is None:
            group = f"group {self._seeker.group}" if self._seeker.group else "the group"
            raise DisconnectedError(f"{group} has no master now")
        self._voter.elect(*own, unelected=self.config.unelected and not self._seeker.has_followed)

    def _lead(self, voter: Voter, env: Environment) -> None:
        """Lead until another node is elected."""
        name, listen, intervals, writer = self.config.name, self.config.listen, self.config.intervals, env.engine.writer
        assert writer is not None

        def failed(_: JetoolError) -> None:
            self._rounds.notify()

        def is_over() -> bool:
            return self._rounds.stopping or not voter.is_master or writer.failure is not None

        told = failed, self._monitors.changed
        term = Leadership(env, name, listen, self.config.lead, *told, intervals, voter.elected_ms)
        herald = Herald(
            self._network,
            term.group.name or "",
            listen,
            lambda: term.members.nodes,
            lambda: voter.elected if voter.is_master else None,
            self.config.timeout_s,
            intervals.announce_s,
        )
        self._seeker.has_followed, self._seeker.node_id = True, term.pair.id
        self._master, self._master_name = address_text(listen), name
        self._term, self._herald = term, herald
        # An election result may have arrived before the term existed.
        self._turn()
        try:
            # Note the monitors before any member can be added: a monitor that is added later gets only later events.
            self._monitors.joined()
            self._rounds.become(Role.MASTER)
            herald.start()
            while not is_over():
                self._rounds.problem = term.problem
                self._rounds.wait_for(is_over, intervals.watch_s)
                if not term.gate.has_majority:
                    # This master may have been replaced while it was disconnected.
                    voter.ask_around(term.group.name or "", term.members)
            # No node may follow a master that cannot log; the other nodes elect another master.
            if writer.failure is not None:
                raise writer.failure
        finally:
            self._rounds.become(Role.UNKNOWN)
            herald.close()
            term.close("this node is not the master any more")
            self._term = self._herald = None
        if not self._rounds.stopping:
            with self._unsettled(), self._copies.log_changes():
                self._home.reopen()

    def _follow(self, env: Environment, link: MasterLink, replay: Replay) -> None:
        """Replay until the master is gone."""
        stream = ReplicaStream(env.engine, link, replay, self._voter, self._master_name)
        self._rounds.become(Role.REPLICA)
        if self._voter is not None:
            self._voter.has_met_master()
        while not self._rounds.stopping:
            stream.receive()
            self._master_vlsn = link.master_vlsn
            if stream.acknowledge():
                # From here on the node's list of monitors is complete.
                self._monitors.joined()

    def _leave(self) -> None:
        if self._link is not None:
            self._link.close()
        if self._replay is not None:
            # Elections use these until another master is followed.
            self._home.note_end(self._replay.dtvlsn, self._replay.master_term)
        self._link = self._replay = None
