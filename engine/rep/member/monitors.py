"""Events for the monitors of a group (je-ha-protocol.md 12.6).

A monitor of JE is a member without records that listens for events. It is notified of a master like other members, by
election results; each node sends its own start and end, and the master sends changes of the group. Monitors do not
answer, and a monitor that is down misses the event.

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


class Monitors:
    """Tells them.

    Arguments:
        network: opens connections to the monitors.
        facts: returns the current facts of this node.
        timeout_s: timeout of each step.
        longest_s: longest time that a hanging monitor delays the end of a node.

    Attributes:
        joined_ms: when the node first followed or led; before that, when it was created.
    """

    def __init__(self, network: Network, facts: Callable[[], NodeFacts], timeout_s: float, longest_s: float) -> None:
        self._network = network
        self._facts = facts
        self._timeout_s = min(timeout_s, longest_s)
        self._longest_s = longest_s
        self._has_joined = False
        self.joined_ms = _now_ms()

    def joined(self) -> None:
        """Note that the node follows or leads; only the first time is an event."""
        if self._has_joined:
            return
        self._has_joined, self.joined_ms = True, _now_ms()
        facts = self._facts()
        self._tell(facts, JoinedGroup(node=facts.node, master=facts.master, joined_ms=self.joined_ms))

    def left(self, *, failed: bool) -> None:
        """The node ends; waits until the event is delivered."""
        if not self._has_joined:
            return
        reason = "ABNORMAL_TERMINATION" if failed else "NORMAL_SHUTDOWN"
        try:
            facts = self._facts()
        except JetoolError:
            # A failed environment may be unable to list the group.
            return
        said = LeftGroup(
            node=facts.node, master=facts.master, joined_ms=self.joined_ms, reason=reason, left_ms=_now_ms()
        )
        thread = self._tell(facts, said)
        if thread is not None:
            thread.join(self._longest_s)

    def changed(self, node: str, change: str) -> None:
        """Send that this node, the master, added (``ADD``) or removed (``REMOVE``) a member."""
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
