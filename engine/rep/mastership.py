"""One term of a master: the gate of its commits, and the replicas that it feeds.

It begins with a Matchpoint entry that has the master's node id: a place at which syncup tells the streams of two
masters apart. It ends by ``transfer``, which loses nothing, or by ``close``.

Example: VLSN 40 is the last Commit. ``transfer("b")``: commits are held, those under way are awaited, b acknowledges
40, PROMOTE is sent. b begins its own term with Matchpoint 41.
"""

from __future__ import annotations

import contextlib
import threading

from engine.db.environment import Environment
from engine.errors import JetoolError, NotFoundError, RefusedError
from engine.format.entry.rollback import Matchpoint, encode_matchpoint
from engine.format.versions import WRITTEN_VERSION
from engine.format.vlsn import NEXT_VLSN
from engine.rep import messages
from engine.rep.acks import GroupGate
from engine.rep.feeder import FeederSession
from engine.rep.group import add_member, check_name, read_membership
from engine.rep.handshake import Identity
from engine.rep.messages import Message, ReplicaProgress
from engine.rep.settings import NodeConfig
from engine.rep.stream import MATCHPOINT
from engine.rep.wire import Channel


class Mastership:
    """Leads an environment, from now on.

    Arguments:
        env: detached; its group has this node as a member.
        config: name, policy, timeouts.

    Raises:
        RefusedError: the node is no member of the group.
    """

    def __init__(self, env: Environment, config: NodeConfig) -> None:
        members = read_membership(env)
        mine = members.node(config.name) if members is not None else None
        if members is None or mine is None or env.vlsn_index is None:
            raise RefusedError(
                f"{config.name!r} is no member of the group", file=env.storage.root,
                hint="give the name under which it joined, or let it join a running master first",
            )  # fmt: skip
        self._env = env
        self._index = env.vlsn_index
        self._heartbeat_s = config.heartbeat_s
        self._feeders: dict[str, FeederSession] = {}
        self.gate = GroupGate(env.vlsn_index, mine.id, config.policy, config.ack_timeout_s)
        self.gate.electable = len(members.electable)
        env.lead(self.gate)
        assert env.writer is not None
        entry = encode_matchpoint(Matchpoint(env.now_ms(), mine.id), WRITTEN_VERSION)
        env.writer.log_in_stream(MATCHPOINT, entry, NEXT_VLSN)
        env.sync()

    def feed(self, channel: Channel, who: Identity) -> None:
        """Feed a replica until it is gone; one that is new becomes a member first.

        Raises:
            JetoolError: it cannot become one; see ``FeederSession.run``. The replica has been told.
        """
        try:
            self._admit(who)
        except JetoolError as error:
            channel.send(Message.FAILED, messages.encode_text(str(error)))
            raise
        earlier = self._feeders.get(who.node)
        if earlier is not None:
            earlier.close()
        session = FeederSession(
            self._env, self.gate, channel, who.node, self._heartbeat_s, lambda: self._note_address(who)
        )
        self._feeders[who.node] = session
        try:
            session.run()
        finally:
            if self._feeders.get(who.node) is session:
                del self._feeders[who.node]

    def transfer(self, node: str, timeout_s: float) -> None:
        """Make a connected replica the master. Afterwards this term is over; commits are still held.

        Raises:
            RefusedError: a commit is not logged, or the replica does not catch up, in time; commits go on.
            NotFoundError: it is not connected.
        """
        feeder = self._feeders.get(node)
        if feeder is None or not feeder.fed:
            raise NotFoundError(f"no replica {node!r} is connected", hint="jetool node status lists them")
        try:
            self.gate.hold(timeout_s)
            if not self.gate.await_acked(node, self._index.range.last_txn_end, timeout_s):
                raise RefusedError(
                    f"{node!r} did not catch up within {timeout_s:g} s", consequence="this node is still the master"
                )
            feeder.promote()
        except JetoolError:
            self.gate.go_on()
            raise

    def replicas(self) -> tuple[ReplicaProgress, ...]:
        """How far the replicas are."""
        return tuple(ReplicaProgress(name, *progress) for name, progress in self.gate.progress().items())

    def close(self, why: str) -> None:
        """Refuse commits from now on, and feed nobody."""
        self.gate.close(why)
        for feeder in list(self._feeders.values()):
            feeder.close()

    def _admit(self, who: Identity) -> None:
        check_name("node", who.node)
        members = read_membership(self._env)
        if members is None or members.node(who.node) is None:
            members = add_member(self._env, who.node, who.host, who.port)
        self.gate.electable = len(members.electable)

    def _note_address(self, who: Identity) -> None:
        """A member that is being fed may have moved. A thread of its own: the commit waits for acknowledgements."""

        def note() -> None:
            with contextlib.suppress(JetoolError):
                add_member(self._env, who.node, who.host, who.port)

        threading.Thread(target=note, name=f"address of {who.node}", daemon=True).start()
