"""The acknowledgements of an arbiter, as the master of its group sees them.

A group of two data nodes may have an arbiter: a member without a log that votes, and keeps the VLSN of the last commit
that it acknowledged. While one data node is missing, the arbiter's acknowledgement replaces the acknowledgement of that
node. The arbiter's vote excludes logs that end before this VLSN.

* The arbiter is asked only when the other data node is not connected, or has not acknowledged in time, and only under
  the policy of a simple majority.
* It gets the commits it is asked about and nothing else of the stream. Of several commits that wait it gets the last:
  the VLSN of that one covers the others.

Example: n1 leads n2 and the arbiter a1. n2 is killed; the commit at VLSN 50 is sent to a1, which keeps 50. n1 is
killed, and n2 returns with a log up to 47: a1's vote shows 50, so n2 is not elected before n1 is back.
"""

from __future__ import annotations

import threading
from typing import Final

from engine.format.vlsn import NULL_VLSN

# The arbiter takes the place of one of two data nodes.
ARBITRATED: Final = 2


class ArbiterAcks:
    """What an arbiter was asked about and has acknowledged.

    Arguments:
        changed: the condition of the gate; methods other than ``next_vlsn`` are called while the gate holds it.

    Attributes:
        name: name of the connected arbiter, or None.
        acked: the last VLSN that it has acknowledged.
    """

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self._asked = NULL_VLSN
        self._sent = NULL_VLSN
        self.name: str | None = None
        self.acked = NULL_VLSN

    def connected(self, name: str) -> None:
        """An arbiter is connected. What it acknowledged before may have been kept in another directory."""
        self.name, self.acked, self._sent = name, NULL_VLSN, NULL_VLSN
        self._changed.notify_all()

    def disconnected(self, name: str) -> None:
        """The arbiter is disconnected; its acknowledgements remain valid."""
        if self.name == name:
            self.name = None
        self._changed.notify_all()

    def ask(self, vlsn: int) -> None:
        """A commit waits for the arbiter."""
        self._asked = max(self._asked, vlsn)
        self._changed.notify_all()

    def next_vlsn(self, timeout_s: float) -> int | None:
        """The commit to send next; None after the timeout."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._asked > self._sent, timeout_s):
                return None
            self._sent = self._asked
            return self._sent
