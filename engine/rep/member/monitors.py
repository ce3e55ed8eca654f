"""Events for the monitors of a group (je-ha-protocol.md 12.6).

A monitor of JE is a member that has no records: it listens, and hears who is the master as elections are told, who has
come to run or has ended from that node itself, and of changes of the group from the master. Monitors do not answer, and
who is not there misses it.

Example: ``LG|n2|n1|1795360394591|NORMAL_SHUTDOWN|1795360394677``: n2, which followed n1, was closed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from engine.errors import JetoolError
from engine.format.entry.group_db import NODE_TYPES
from engine.rep.client.connection import Network
from engine.rep.master.election import ask_all
from engine.rep.services.questions import NodeFacts
from engine.rep.wire.group_lines import MONITOR, GroupChange, JoinedGroup, LeftGroup
from engine.rep.wire.lines import TextMessage

_MONITOR: Final = NODE_TYPES.index("monitor")
# A monitor that hangs does not keep a node from ending for longer.
_LONGEST_S: Final = 3.0


class Monitors:
    """Tells them.

    Arguments:
        network: how to get to them.
        facts: of this node, at the moment.
        timeout_s: the longest that each step may take.

    Attributes:
        joined_ms: when the node has first followed or led; when it was made as long as it has not.
    """

    def __init__(self, network: Network, facts: Callable[[], NodeFacts], timeout_s: float) -> None:
        self._network = network
        self._facts = facts
        self._timeout_s = min(timeout_s, _LONGEST_S)
        self._has_joined = False
        self.joined_ms = _now_ms()

    def joined(self) -> None:
        """The node follows or leads; only the first time is an event."""
        if self._has_joined:
            return
        self._has_joined, self.joined_ms = True, _now_ms()
        facts = self._facts()
        self._tell(facts, JoinedGroup(node=facts.node, master=facts.master, joined_ms=self.joined_ms))

    def left(self, *, failed: bool) -> None:
        """The node ends; waits until they have heard it."""
        if not self._has_joined:
            return
        reason = "ABNORMAL_TERMINATION" if failed else "NORMAL_SHUTDOWN"
        try:
            facts = self._facts()
        except JetoolError:
            # An environment that has failed may not say who is in the group.
            return
        said = LeftGroup(
            node=facts.node, master=facts.master, joined_ms=self.joined_ms, reason=reason, left_ms=_now_ms()
        )
        thread = self._tell(facts, said)
        if thread is not None:
            thread.join(_LONGEST_S)

    def changed(self, node: str, change: str) -> None:
        """A member was added (``ADD``) or removed (``REMOVE``) by this node, the master."""
        facts = self._facts()
        if facts.members is not None:
            self._tell(facts, GroupChange(node=node, change=change, members=facts.members))

    def _tell(self, facts: NodeFacts, message: TextMessage) -> threading.Thread | None:
        members = facts.members.nodes if facts.members is not None else ()
        places = [(node.host or "", node.port) for node in members if node.type == _MONITOR and not node.removed]
        if not places:
            return None
        arguments = self._network, MONITOR, facts.group, message, places, self._timeout_s
        thread = threading.Thread(target=ask_all, args=arguments, name="monitors", daemon=True)
        thread.start()
        return thread


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
