"""When ``--until-idle`` ends a stream: by a clock of its own."""

from __future__ import annotations

from engine.rep.changes.subscriber import Quiet
from jetool.commands.stream.idleness import BEHIND, IDLE, Idleness

ALL = Quiet(caught_up=True)
SILENT = Quiet(caught_up=False, why="silent")
HELD = Quiet(caught_up=False, held=2, why="held")


def test_all_is_read() -> None:
    clock = Idleness(5, 10, 100)
    assert [clock.ended(ALL, 7, now) for now in (101, 105.9, 106)] == [None, None, IDLE]


def test_silence_ends_after_the_longer_time() -> None:
    assert [Idleness(5, 10, 100).ended(SILENT, 0, now) for now in (109.9, 110)] == [None, BEHIND]
    assert [Idleness(30, 10, 100).ended(SILENT, 0, now) for now in (129.9, 130)] == [None, BEHIND]


def test_what_is_held_gets_time_to_become_durable() -> None:
    assert [Idleness(1, 2, 100).ended(HELD, 0, now) for now in (119, 120)] == [None, BEHIND]


def test_silence_counts_from_the_last_moment_without_a_lack() -> None:
    clock = Idleness(10, 5, 100)
    assert clock.ended(ALL, 0, 109.9) is None
    # A cut right before the end, then the stream goes on, with nothing new.
    assert clock.ended(SILENT, 0, 110.5) is None
    assert clock.ended(ALL, 0, 111) == IDLE


def test_a_server_that_comes_and_goes_does_not_put_off_the_end() -> None:
    clock = Idleness(10, 5, 100)
    ends = [clock.ended(quiet, 7, 100 + at) for at, quiet in enumerate([SILENT, ALL] * 10)]
    assert ends.index(IDLE) == 11


def test_new_entries_and_output_are_news() -> None:
    clock = Idleness(5, 5, 100)
    assert clock.ended(SILENT, 1, 104) is None
    assert clock.ended(SILENT, 2, 108) is None
    clock.news(112)
    assert clock.ended(SILENT, 2, 116) is None
    assert clock.ended(SILENT, 2, 117) == BEHIND
