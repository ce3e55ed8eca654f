"""Finding the master of the group, and the handshake with it."""

from __future__ import annotations

import time
from typing import Final

from engine.errors import NotFoundError, RefusedError
from engine.rep.client.call import ask
from engine.rep.client.connection import Address, Network
from engine.rep.client.group_state import GroupLook, look
from engine.rep.client.handshake import NEW_NODE, UNKNOWN_UUID, NameInUseError, NodeIdentity, join
from engine.rep.member.config import JoinConfig
from engine.rep.member.home import Home
from engine.rep.member.link import MasterLink
from engine.rep.peers import DisconnectedError, PeerError
from engine.rep.wire.election_lines import LEARNER, MasterAnswer, MasterQuery

# Voting nodes do not wait for a hanging node.
_VOTER_LOOK_S: Final = 3.0


class Seeker:
    """Looks for the master.

    Arguments:
        config: how the node joins.
        network: opens connections to the nodes of the group.
        home: the environment of this node.

    Attributes:
        group: the name of the group, empty while it is unknown.
        has_followed: whether there was a master before; then nodes that do not answer are expected to come back.
    """

    def __init__(self, config: JoinConfig, network: Network, home: Home) -> None:
        self._config = config
        self._network = network
        self._home = home
        self._addresses = list(config.addresses)
        self._taken_since = 0.0
        self._step_s = min(config.timeout_s, _VOTER_LOOK_S) if config.votes else config.timeout_s
        self.group = config.group or ""
        self._node_id = NEW_NODE
        self.has_followed = False

    @property
    def node_id(self) -> int:
        """The id of this node. A member knows its id from its own log: JE 25.3 ignores promises without it."""
        return self._node_id if self._node_id != NEW_NODE else self._home.recorded_id()

    @node_id.setter
    def node_id(self, node_id: int) -> None:
        self._node_id = node_id

    def wanted(self) -> str | None:
        """The name of the group to join, or of the environment's group; None while unknown.

        Raises:
            RefusedError: these are two.
        """
        members = self._home.members()
        known = members.group.name if members is not None else None
        wanted = self._config.group or known
        if known is not None and wanted != known:
            raise RefusedError(
                "the environment is of another group",
                file=self._home.root,
                expected=wanted,
                found=known,
                consequence="it has not joined; nothing was changed",
                hint="a node of one group joins another with an empty directory only",
            )
        self.group = wanted or ""
        return wanted

    def is_there(self) -> bool:
        """Whether any node of the group is running.

        Nodes that listen without knowing a group do not count: a node of an existing group opens its environment before
        it listens, so such a node is about to join or create the group, like this node.
        """
        try:
            self.look()
        except (NotFoundError, DisconnectedError):
            return False
        except PeerError:
            # The node refuses, or belongs to another group: report it in the first round.
            return True
        return True

    def look(self) -> GroupLook:
        """Look at the group.

        Raises:
            DisconnectedError: no node answers now. PeerError: another group answers, at the beginning. NotFoundError:
                no node has ever answered this secondary.
        """
        wanted, places = self.wanted(), self._others([*self._addresses, *self._home.voters()])
        try:
            found = look(self._network, places, wanted, self._step_s)
        except (NotFoundError, PeerError) as error:
            # At the beginning an address may be mistyped; later all nodes may be down, starting, or not answering yet.
            # Members are started at the same time, in any order.
            new = not self.has_followed and self._home.members() is None
            if new and (not self._config.votes or not isinstance(error, NotFoundError)):
                if isinstance(error, DisconnectedError):
                    raise PeerError(error.what, found=error.found, hint=error.hint) from error
                raise
            group = f"group {wanted}" if wanted else "the group"
            raise DisconnectedError(f"{group} cannot be reached", found=str(error)) from error
        self.group = found.group
        # Later the group can be found through any of its nodes, even if one of the given nodes is gone.
        self._addresses = self._others([*self._addresses, *(node.address for node in found.nodes)])
        return found

    def _others(self, addresses: list[Address]) -> list[Address]:
        return [address for address in dict.fromkeys(addresses) if address != self._config.listen]

    def check_followers(self, found: GroupLook) -> None:
        """Refuse an election while another member follows a master, even if that master cannot be reached from here.

        Raises:
            DisconnectedError: another member follows a master.
        """
        for node in found.nodes:
            if node.said is not None and node.state == "REPLICA" and node.name != self._config.name:
                raise DisconnectedError(f"{node.said.master}, which {node.name} follows, cannot be reached")

    def learned(self, address: Address, master: str) -> MasterAnswer | None:
        """The election result according to the master itself; this node passes it on to nodes that ask."""
        try:
            answer = ask(self._network, address, LEARNER, self.group, MasterQuery(), self._step_s)
        except PeerError:
            return None
        said = answer[1] if answer is not None else None
        return said if isinstance(said, MasterAnswer) and said.value.node == master else None

    def join(self, address: Address) -> MasterLink:
        """Go through the handshake.

        Raises:
            DisconnectedError: the master has gone. PeerError: the master refuses this node. RefusedError: the clock of
                the master differs too much.
            NameInUseError: another node of this name has been connected for too long.
        """
        members, config = self._home.members(), self._config
        uuid = (members.group.uuid_high, members.group.uuid_low) if members is not None else UNKNOWN_UUID
        log_version = self._home.log_version
        cache_bytes = config.environment.cache_bytes
        joining = NodeIdentity(
            config.name, *config.listen, config.node_type, log_version, cache_bytes, self._home.recorded_id()
        )
        try:
            joined = join(
                self._network, address, self.group, config.timeout_s, force=config.force, uuid=uuid, joining=joining
            )
        except NameInUseError as error:
            raise self._taken(error) from error
        self._taken_since, self._node_id = 0.0, joined.node_id
        if abs(joined.clock_ms) > config.max_skew_ms:
            joined.call.close()
            raise RefusedError(
                f"the clock of {joined.call.peer} is {abs(joined.clock_ms)} ms"
                f" {'ahead of' if joined.clock_ms > 0 else 'after'} the one here",
                expected=f"at most {config.max_skew_ms} ms",
                found=f"{abs(joined.clock_ms)} ms",
                consequence="it has not joined; nothing was changed",
                hint="set the clocks of both machines by the same server, then start the node again",
            )
        return MasterLink(joined, log_version)

    def _taken(self, error: NameInUseError) -> PeerError:
        """After an interruption the master may consider the old connection alive.

        If the name stays in use, it belongs to another node.
        """
        now = time.monotonic()
        self._taken_since = self._taken_since or now
        if now - self._taken_since > self._config.intervals.name_patience_s:
            return NameInUseError(
                f"the group has an active node {self._config.name!r} already",
                found=error.found,
                consequence="it has not joined; nothing was changed",
                hint="give this node another --node",
            )
        return DisconnectedError(error.what, found=error.found)
