"""VLSNs and rollback periods that do not fit together, and what ``verify`` says of them."""

from __future__ import annotations

import pytest

from engine.format.entry_types import DB_TREE
from engine.format.lsn import make_lsn
from tests.support.logs.log_writer import (
    NAMES,
    LogWriter,
    codes,
    findings,
    places,
    replicated_ln,
    root_body,
)


def test_vlsns_that_step_back() -> None:
    """Within a file and from one file to the next; a rollback is the one way to go back."""
    log = LogWriter()
    log.stream(5)
    log.stream(6)
    within = log.stream(6)
    log.stream(7)
    log.next_file()
    across = log.stream(7)
    assert places(log.files) == [
        ("JE-LOG-016", "error", within, "00000000.jdb"),
        ("JE-LOG-016", "error", make_lsn(1, 0), "00000001.jdb"),
    ]
    assert across > make_lsn(1, 0)


@pytest.mark.parametrize("files", [1, 2, 3])
def test_vlsns_that_step_back_behind_a_rollback(files: int) -> None:
    """Matchpoint, rolled-back entries, RollbackStart and new entries in one file or over several."""
    log = LogWriter()
    matchpoint = log.commit(5)
    log.stream(6, invisible=True)
    if files > 1:
        log.next_file()
    log.stream(7, invisible=True)
    start = log.rollback_start(matchpoint, 5)
    log.rollback_end(matchpoint, start)
    if files > 2:
        log.next_file()
    log.stream(6)
    log.commit(7)
    assert places(log.files) == []


@pytest.mark.parametrize("split", [False, True])
def test_several_periods_nested_and_apart(split: bool) -> None:
    log = LogWriter()
    outer = log.commit(1)
    log.stream(2, invisible=True)
    inner = log.add(30, b"\x00" * 8 + b"\x01", flags=0x28 | 0x10, vlsn=3)
    log.stream(4, invisible=True)
    start = log.rollback_start(inner, 3)
    log.rollback_end(inner, start)
    if split:
        log.next_file()
    log.stream(4, invisible=True)
    start = log.rollback_start(outer, 1)
    log.rollback_end(outer, start)
    second = log.commit(2)
    log.stream(3, invisible=True)
    if split:
        log.next_file()
    start = log.rollback_start(second, 2)
    log.rollback_end(second, start)
    log.commit(3)
    assert places(log.files) == []


def test_periods_that_intersect() -> None:
    """Also where one begins at the RollbackStart of the other (R-RB-16)."""
    log = LogWriter()
    first = log.trace()
    middle = log.trace()
    start = log.rollback_start(first, 1)
    log.rollback_end(first, start)
    later = log.rollback_start(middle, 1)
    log.rollback_end(middle, later)
    assert places(log.files) == [("JE-LOG-023", "error", later, "00000000.jdb")]
    log = LogWriter()
    first = log.trace()
    start = log.rollback_start(first, 1)
    log.rollback_end(first, start)
    later = log.rollback_start(start, 1)
    log.rollback_end(start, later)
    assert places(log.files) == [("JE-LOG-023", "error", later, "00000000.jdb")]


def period(log: LogWriter, vlsn: int) -> tuple[int, int]:
    """A matchpoint, an entry that is rolled back, RollbackStart; returns the LSNs of matchpoint and RollbackStart."""
    matchpoint = log.commit(vlsn)
    log.stream(vlsn + 1, invisible=True)
    return matchpoint, log.rollback_start(matchpoint, vlsn)


def test_two_rollback_ends_of_one_period() -> None:
    """Recovery refuses such a log; the periods, taken by their RollbackStarts, look as they should."""
    log = LogWriter()
    matchpoint, start = period(log, 1)
    first = log.rollback_end(matchpoint, start)
    log.next_file()
    second = log.rollback_end(matchpoint, start)
    log.stream(2)
    # Recovery reads backward, so it is the earlier one that it takes for the second.
    assert places(log.files) == [("JE-LOG-028", "error", first, "00000000.jdb")]
    log.rollback_end(matchpoint, start)
    assert places(log.files) == [("JE-LOG-028", "error", second, "00000001.jdb")]


def test_a_rollback_end_without_its_start() -> None:
    """Damage where the file is there that should hold the RollbackStart; else the cleaner has deleted it."""
    log = LogWriter()
    log.trace()
    log.next_file()
    matchpoint = log.commit(1)
    end = log.rollback_end(matchpoint, matchpoint + 5)
    assert places(log.files) == [("JE-LOG-028", "error", end, "00000001.jdb")]
    log = LogWriter()
    log.next_file()
    log.next_file()
    log.add(DB_TREE, root_body(17))
    log.checkpoint_end(log.commit(1))
    log.rollback_end(make_lsn(1, 60), make_lsn(1, 90))
    files = log.files
    del files[NAMES[0]], files[NAMES[1]]
    assert [code for code in codes(files) if code != "JE-LOG-012"] == []


def test_a_write_while_a_node_rolls_back() -> None:
    log = LogWriter()
    matchpoint, start = period(log, 1)
    log.trace("local writes may come here")
    write = replicated_ln(log, 2)
    log.rollback_end(matchpoint, start)
    assert places(log.files) == [("JE-LOG-029", "error", write, "00000000.jdb")]


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("rolled_back", [False, True])
def test_vlsns_that_are_missing(split: bool, rolled_back: bool) -> None:
    """In a file, between two, and after a rollback, whose VLSNs are given again."""
    log = LogWriter()
    log.commit(1)
    if rolled_back:
        matchpoint, start = period(log, 2)
        log.rollback_end(matchpoint, start)
    else:
        log.commit(2)
    log.stream(3)
    if split:
        log.next_file()
    log.trace("local")
    after = log.stream(6)
    log.stream(7)
    (found,) = findings(log.files)
    assert (found.code, found.lsn) == ("JE-REP-011", after)
    assert "4..5, 2 of them" in found.message


def test_vlsns_in_a_file_that_is_gone_are_no_second_finding() -> None:
    log = LogWriter()
    log.commit(1)
    log.next_file()
    log.commit(2)
    log.next_file()
    log.commit(3)
    files = log.files
    del files[NAMES[1]]
    assert codes(files) == ["JE-LOG-010"]


def test_thousands_of_periods_take_no_quadratic_time() -> None:
    """A crafted log: each period begins where all the others do, and covers them."""
    log = LogWriter()
    first = log.commit(1)
    for _ in range(5000):
        start = log.rollback_start(first, 1)
        log.rollback_end(first, start)
    assert places(log.files) == []
