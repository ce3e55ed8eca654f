"""How long a node of a group waits, and how often it does what it repeats.

The defaults suit machines of one data centre. JE's own nodes rely on a heartbeat each second.
"""

from __future__ import annotations

from typing import NamedTuple


class NodeIntervals(NamedTuple):
    """The pauses and patience of a node, in seconds.

    Attributes:
        first_pause_s, longest_pause_s: after a round that found no master; each such pause is twice the one before.
        voter_pause_s: the longest pause of a node that votes, since a group without a master cannot commit.
        watch_s: how often a master looks whether it still leads.
        name_patience_s: a master drops a silent node after 30 s, so a name in use for longer belongs to another node.
        monitors_s: longest time that a hanging monitor delays the end of a node.
        announce_s: how often a master tells the members that it leads.
        promise_s: longest wait for the result after a promise; a replica of JE waits as long.
        heartbeat_s: how often a master sends its position.
        stable_s: for how long the DTVLSN must be unchanged before an empty commit carries it.
        dead_s: if an old connection is silent for this time after the replica reconnected, it is dead: a replica
            answers each heartbeat.
        transit_s: after this time messages that were in transit have arrived.
        leave_s: longest wait for the end of a session, whose sending thread may sleep until the next heartbeat.
    """

    first_pause_s: float = 0.2
    longest_pause_s: float = 8.0
    voter_pause_s: float = 1.0
    watch_s: float = 2.0
    name_patience_s: float = 60.0
    monitors_s: float = 3.0
    announce_s: float = 60.0
    promise_s: float = 5.0
    heartbeat_s: float = 1.0
    stable_s: float = 2.0
    dead_s: float = 4.0
    transit_s: float = 0.5
    leave_s: float = 3.0


USUAL_INTERVALS = NodeIntervals()
