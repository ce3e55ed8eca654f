"""The main thread of a node: which errors end a round, and which end the node."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.errors import RefusedError
from engine.rep.intervals import NodeIntervals
from engine.rep.member.rounds import Rounds
from engine.rep.peers import DisconnectedError
from engine.rep.status import Role
from tests.support.waiting import PATIENCE_S, eventually

_BRIEF = NodeIntervals(first_pause_s=0.001, longest_pause_s=0.002, voter_pause_s=0.002)


class Played:
    """Rounds of which each does the next of the given steps; after the last one they do nothing."""

    def __init__(self, *steps: Callable[[], None], intervals: NodeIntervals = _BRIEF, votes: bool = False) -> None:
        self.steps = list(steps)
        self.done: list[Role] = []
        self.left = 0
        self.is_due = False
        self.rounds = Rounds("n1", self._run, self._leave, intervals, votes=votes, is_due=lambda: self.is_due)
        self.rounds.start()

    def _run(self) -> None:
        self.done.append(self.rounds.role)
        if self.steps:
            self.steps.pop(0)()

    def _leave(self) -> None:
        self.left += 1

    def end(self) -> None:
        self.rounds.stop()
        self.rounds.join()


def failing(error: Exception) -> Callable[[], None]:
    def run() -> None:
        raise error

    return run


@pytest.mark.parametrize("votes", [False, True])
def test_a_lost_master_is_searched_again(votes: bool) -> None:
    gone = DisconnectedError("gone")
    played = Played(failing(gone), failing(gone), votes=votes)
    eventually(lambda: len(played.done) > 3)
    assert (played.rounds.problem, played.rounds.failure) == (gone, None)
    played.end()
    assert played.left == len(played.done)


def test_each_round_begins_without_a_role() -> None:
    played = Played()
    played.steps.append(lambda: played.rounds.become(Role.REPLICA))
    eventually(lambda: not played.steps and len(played.done) > 2)
    played.end()
    assert set(played.done) == {Role.UNKNOWN}


@pytest.mark.parametrize("error", [RefusedError("damage"), ZeroDivisionError("a bug")])
def test_another_error_ends_the_node(error: Exception) -> None:
    played = Played(failing(error))
    assert played.rounds.await_end(PATIENCE_S)
    played.end()
    assert (played.rounds.failure, len(played.done), played.left) == (error, 1, 1)


def test_an_error_of_a_node_that_stops_is_no_failure() -> None:
    played = Played(intervals=_BRIEF._replace(first_pause_s=0.01))

    def closed() -> None:
        played.rounds.stop()
        raise RefusedError("the connection is closed")

    played.steps.append(closed)
    played.rounds.join()
    assert played.rounds.failure is None


def test_a_round_that_is_due_does_not_wait() -> None:
    played = Played(intervals=_BRIEF._replace(first_pause_s=2 * PATIENCE_S))
    eventually(lambda: played.left == 1)
    assert len(played.done) == 1
    played.is_due = True
    played.rounds.notify()
    eventually(lambda: len(played.done) > 1)
    played.is_due = False
    played.end()
    assert played.left == len(played.done) > 1
