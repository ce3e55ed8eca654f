"""Which file is chosen (R-CLN-18 to R-CLN-22; T-84)."""

from __future__ import annotations

from typing import Any

import pytest

from engine.cleaner.selection import CleaningLimits, FileUsage, choose, last_candidate, parse_file_ranges, percent
from engine.errors import UsageError

LIMITS = CleaningLimits()


def files(*obsolete: int, total: int = 100) -> list[FileUsage]:
    return [FileUsage(number, total, bytes_) for number, bytes_ in enumerate(obsolete)]


def chosen(facts: list[FileUsage], limits: CleaningLimits = LIMITS, newest: int = 1000, **how: Any) -> int | None:
    choice = choose(facts, limits, newest, **how).choice
    return None if choice is None else choice.number


def test_percent_is_rounded_half_up() -> None:
    assert [percent(995, 1000), percent(994, 1000), percent(1000, 1000), percent(0, 0)] == [1, 1, 0, 0]


def test_the_example_of_the_module() -> None:
    assert chosen(files(90, 40, 0, 0)) is None
    assert chosen(files(90, 80, 60, 0)) == 0
    begun = [FileUsage(0, 100, 90, in_progress=True), *files(90, 80, 60, 0)[1:]]
    found = choose(begun, LIMITS, 1000)
    assert (found.choice, found.current_min, found.predicted_min) == (None, 43, 55)


def test_the_first_of_equals_is_chosen() -> None:
    assert chosen(files(80, 80, 80, 0)) == 0


def test_files_that_are_too_new_are_left_alone() -> None:
    assert last_candidate(9, 5, 2) == 3
    assert last_candidate(9, 9, 2) == 7
    assert chosen(files(50, 60, 99, 99), newest=1) == 1
    assert chosen(files(99, 99), newest=-1) is None


def test_one_bad_file_of_a_good_log() -> None:
    """T-84 MinFileUtilization: the log is used well, one file is not."""
    assert chosen(files(0, 96, 0, 0, 0)) == 1
    assert chosen(files(0, 95, 0, 0, 0)) is None


def test_files_that_have_to_stay_are_passed_by() -> None:
    assert chosen(files(90, 80, 70), excluded={0}) == 1


def test_forced_files() -> None:
    """T-84 ForceCleanFiles."""
    assert parse_file_ranges("1, a-c") == ((1, 1), (10, 12))
    assert chosen(files(0, 0, 0), forced={2}) == 2
    with pytest.raises(UsageError):
        parse_file_ranges("x-3")


def test_anything_takes_the_best() -> None:
    assert chosen(files(0, 20, 10), anything=True) == 1


def test_expired_bytes_make_a_range() -> None:
    """50 obsolete and 40 expired bytes: between 10 and 50 per cent are in use."""
    facts = FileUsage(0, 100, 50, 40, 40)
    assert (facts.min_utilization, facts.average_utilization, facts.max_utilization) == (10, 30, 50)
    assert chosen([facts, FileUsage(1, 100, 75)]) == 1
    assert chosen([facts, FileUsage(1, 100, 65)]) == 0


def test_two_passes_where_the_range_is_wide() -> None:
    wide, narrow = FileUsage(0, 100, 50, 50, 50), FileUsage(0, 100, 50, 9, 9)
    for facts, required in ((wide, 45), (narrow, None)):
        choice = choose([facts], LIMITS, 1000).choice
        assert choice is not None
        assert choice.required == required


def test_gradual_expiration_decides_for_the_whole_log() -> None:
    """All of it has expired today, but little of the day has passed: nothing is chosen yet."""
    facts = [FileUsage(number, 100, 0, 60, 5) for number in range(4)]
    assert chosen(facts) is None
    assert chosen([one._replace(gradual=60) for one in facts]) == 0
