"""The main thread of a node: rounds with pauses between them, until the node stops or fails.

A round finds the master and follows it, or leads, and returns when another round is needed. An error that waiting may
fix ends a round; any other error ends the node, and ``failure`` holds it.

Example: round 1 follows n1 until n1 dies | pause 0.2 s | round 2: no master | pause 0.4 s | round 3: this node leads
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Final

from engine.errors import JetoolError
from engine.rep.client.call import ServiceError
from engine.rep.intervals import NodeIntervals
from engine.rep.peers import DisconnectedError
from engine.rep.status import Role

# The master is gone, or is not master yet: the next round may find it.
_PASSING: Final = (DisconnectedError, ServiceError)


class Rounds:
    """The rounds of a node.

    Arguments:
        name: of the node.
        run: one round.
        leave: ends what the round began; called after each round, also after one that raised an error.
        intervals: the pauses.
        votes: whether the node takes part in elections.
        is_due: whether the next round must not wait.

    Attributes:
        role: replica while the node follows a master, master while it leads, unknown while there is no master.
        problem: why the node currently has no master, or None.
        failure: the error that stopped the node, or None.
        stopping: whether the node was told to stop.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[], None],
        leave: Callable[[], None],
        intervals: NodeIntervals,
        *,
        votes: bool,
        is_due: Callable[[], bool] = lambda: False,
    ) -> None:
        self._run = run
        self._leave = leave
        self._intervals = intervals
        self._votes = votes
        self._is_due = is_due
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._main, name=f"{name} main", daemon=True)
        self.role = Role.UNKNOWN
        self.problem: JetoolError | None = None
        self.failure: Exception | None = None
        self.stopping = False

    def start(self) -> None:
        """Begin the first round."""
        self._thread.start()

    def stop(self) -> None:
        """Let no other round begin; the caller ends the one that runs."""
        with self._changed:
            self.stopping = True
            self._changed.notify_all()

    def join(self) -> None:
        """Wait for the end of the last round, if one has begun."""
        if self._thread.is_alive():
            self._thread.join()

    def become(self, role: Role) -> None:
        """Change the role."""
        with self._changed:
            self.role = role
            self._changed.notify_all()

    def notify(self) -> None:
        """Something has changed that a thread in ``wait_for`` may wait for."""
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until the condition holds, which is tested after each change; False after the timeout."""
        with self._changed:
            return self._changed.wait_for(condition, timeout_s)

    def await_end(self, timeout_s: float) -> bool:
        """Wait until the node has failed; False after the timeout."""
        return self.wait_for(lambda: self.failure is not None, timeout_s)

    def _main(self) -> None:
        pause_s = self._intervals.first_pause_s
        try:
            while not self.stopping:
                try:
                    self._run()
                    pause_s = self._intervals.first_pause_s
                except _PASSING as error:
                    pause_s = self._pause_after(pause_s)
                    self.problem = error
                finally:
                    self._leave()
                    self.become(Role.UNKNOWN)
                self.wait_for(lambda: self.stopping or self._is_due(), pause_s)
        except Exception as error:  # A bug must be reported too, instead of leaving a node that seems to run.
            if not self.stopping or not isinstance(error, JetoolError):
                self.failure = error
                self.notify()

    def _pause_after(self, pause_s: float) -> float:
        """The pause after a round that failed, in seconds, longer than the one before if the round had no master."""
        if self.role is Role.REPLICA:
            return self._intervals.first_pause_s
        if not self._votes:
            return min(2 * pause_s, self._intervals.longest_pause_s)
        # Wait for a random time, so that two nodes rarely propose at the same moment.
        return min(2 * pause_s, self._intervals.voter_pause_s) * random.uniform(0.5, 1.0)


class RunningMember:
    """What callers see of the rounds of a node.

    Arguments:
        rounds: its main thread.
    """

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds

    @property
    def role(self) -> Role:
        """Replica while it follows a master, master while it leads, unknown while there is no master."""
        return self._rounds.role

    @property
    def failure(self) -> Exception | None:
        """The error that stopped the node, or None."""
        return self._rounds.failure

    @property
    def problem(self) -> JetoolError | None:
        """Why the node currently has no master, or None."""
        return self._rounds.problem

    def await_end(self, timeout_s: float) -> bool:
        """Wait until the node has failed; False after the timeout."""
        return self._rounds.await_end(timeout_s)
