"""Rollback periods from logs: E-RB-1 to 3 and the tests T-1 to T-5 of JE."""

from __future__ import annotations

import pytest

from engine.errors import DamageError, JetoolError
from engine.format.entry.rollback import RollbackEnd, RollbackStart
from engine.recovery.rollback_tracker import RollbackTracker
from tests.support.logs.loglang import NoLog, parse, register, shape

SEED = (
    "100 C-11 | 200 A-12 | 250 LN-13 | 300 A-13 | 350 LN-14 | 400 RS200:-14 | 500 RE | 550 LN-15 | 600 RS200:-15 | "
    "650 LN-16 | 700 RS100:-16 | 800 RE | 850 LN-17 | 900 A-17 | 950 LN-18 | 1000 RS900:-18"
)

FOUR_LEVELS = (
    "20 A-501 | 21 LN-504 | 22 RS20:-504 | 30 LN-504 | 31 LN-504 | 40 A-505 | 41 LN-506 | 42 A-599 | 43 A-598 | "
    "44 LN-506 | 45 RS43:-506 | 46 RE | 47 LN-507 | 48 RS42:-507 | 49 LN-508 | 50 RS40:-506,-508 | 51 LN-509 | "
    "52 RS40:-509 | 53 RE | 70 C-504 | 71 LN-600 | 72 LN-600 | 73 RS70:-600 | 74 RE"
)


def targets(text: str, ckpt_start: int = -1) -> dict[int, tuple[int, int] | None]:
    """The period (M, S) of each LN as pass 7 finds it."""
    scanner = register(text, ckpt_start).scanner(NoLog())
    found = {}
    for item in reversed(parse(text)):
        if item.kind == "LN":
            period = scanner.find(item.lsn, item.txn_id)
            found[item.lsn] = None if period is None else (period.matchpoint_lsn, period.start_lsn)
    return found


def test_seed_example() -> None:
    """E-RB-1."""
    tracker = register(SEED)
    assert shape(tracker.periods) == [
        (900, 1000, None),
        (100, 700, 800, (200, 600, None, (200, 400, 500))),
    ]
    assert targets(SEED) == {
        350: (200, 400), 550: (200, 600), 650: (100, 700), 950: (900, 1000), 250: None, 850: None,
    }  # fmt: skip
    assert [str(period) for period in tracker.walk()] == [
        "(0x0/0x384, 0x0/0x3e8) open",
        "(0x0/0x64, 0x0/0x2bc) ended at 0x0/0x320",
        "(0x0/0xc8, 0x0/0x258) open",
        "(0x0/0xc8, 0x0/0x190) ended at 0x0/0x1f4",
    ]


def test_four_levels() -> None:
    """E-RB-2, T-1."""
    assert shape(register(FOUR_LEVELS, 9).periods) == [
        (70, 73, 74),
        (40, 52, 53, (40, 50, None, (42, 48, None, (43, 45, 46)))),
        (20, 22, None),
    ]
    assert targets(FOUR_LEVELS, 9) == {
        72: (70, 73), 71: (70, 73), 51: (40, 52), 49: (40, 50), 41: (40, 50), 47: (42, 48), 44: (43, 45),
        21: (20, 22), 30: None, 31: None,
    }  # fmt: skip


def test_four_levels_while_under_construction() -> None:
    """R-RB-37: pass 3 asks the deepest current child only; T-1 pass by pass."""
    tracker = RollbackTracker(9)
    seen = {}
    for item in reversed(parse(FOUR_LEVELS)):
        if isinstance(item.record, RollbackStart):
            tracker.register_start(item.record, item.lsn)
        elif isinstance(item.record, RollbackEnd):
            tracker.register_end(item.record, item.lsn)
        elif item.kind == "LN":
            period = tracker.target_under_construction(item.lsn, item.txn_id)
            seen[item.lsn] = None if period is None else period.start_lsn
    # 41 is found: (43, 45) and (42, 48) lie above it by then.
    assert seen == {72: 73, 71: 73, 51: 52, 49: 50, 47: 48, 44: 45, 41: 50, 31: None, 30: None, 21: 22}


REFUSED = [
    ("20 A-1 | 22 RS20:-11 | 23 RE | 24 RE20,22", "two RollbackEnds in a row at 0x0/0x17"),
    ("40 RS30:-11 | 45 RE | 60 RS35:-12", "RollbackEnd intersects the rollback period (0x0/0x23, 0x0/0x3c) open at"),
    ("40 RS20:-11 | 45 RE | 60 RS30:-12 | 65 RE", "RollbackEnd intersects"),
    ("30 RS20:-11 | 31 RE | 40 RS25:-12", "RollbackEnd intersects"),
    ("30 RS20:-11 | 31 RE | 40 RS30:-12", "RollbackEnd intersects"),
    ("40 RS30:-11 | 60 RS35:-12", "RollbackStart intersects"),
    ("13 C-22 | 15 RS11:-12 | 17 RS10:-13", "commit of transaction -22 within a rollback period at 0x0/0xd"),
    ("13 C-10 | 16 RS11:-12", "commit of transaction -10 within a rollback period"),
    ("13 C-11 | 16 RS11:-12 | 20 RE", "commit of transaction -11"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_refused(text: str, message: str) -> None:
    """E-RB-3, T-4, T-5."""
    with pytest.raises(DamageError) as caught:
        register(text)
    assert message in str(caught.value)
    assert "LOG_INTEGRITY" in str(caught.value)
    assert caught.value.hint


def test_end_without_start_is_refused() -> None:
    """D-4; it names both LSNs."""
    with pytest.raises(DamageError, match="RollbackEnd without its RollbackStart at 0x0/0x1e at 0x0/0x1f"):
        register("20 C-11 | 25 LN-12 | 31 RE20,30")


def test_end_without_start_before_the_range_is_harmless() -> None:
    """The RollbackStart lies before firstActive: no LN of the period is ever read, and JE opens such a log."""
    text = "20 C-11 | 25 LN-12 | 30 RS20:-12 | 35 LN77 | 40 RE | 50 LN77"
    for ckpt_start in (38, 45):
        tracker = register(text, ckpt_start, first_lsn=35)
        assert shape(tracker.periods) == [(20, 30, 40)]
        assert tracker.scanner(NoLog()).find(50, 77) is None
    with pytest.raises(DamageError, match="without its RollbackStart"):
        register(text.replace("30 RS20:-12 | ", "").replace("RE", "RE20,36"), 45, first_lsn=35)


ACCEPTED = [
    ("30 RS20:-11 | 31 RE | 32 C-12 | 40 RS32:-13 | 41 RE", [(32, 40, 41), (20, 30, 31)]),
    ("30 RS20:-11 | 31 RE | 40 RS20:-13 | 41 RE", [(20, 40, 41, (20, 30, 31))]),
    ("20 C-20 | 21 LN-21 | 22 RS20:-21 | 23 C-23 | 24 RE | 25 C-25", [(20, 22, 24)]),
    ("13 C5 | 14 C-9 | 16 RS11:-12", [(11, 16, None)]),
    (
        "10 C-11 | 12 RS10: | 13 RE | 20 A-12 | 22 RS20: | 23 RE | 30 A-13 | 32 RS30: | 33 RE | 50 RS10:",
        [(10, 50, None, (30, 32, 33), (20, 22, 23), (10, 12, 13))],
    ),
]


@pytest.mark.parametrize(("text", "expected"), ACCEPTED)
def test_accepted(text: str, expected: list[object]) -> None:
    """E-RB-3; R-RB-17: siblings, three of them too."""
    assert shape(register(text).periods) == expected


def test_inner_period_that_does_not_list_the_transaction() -> None:
    """E-RB-3: 44 falls back to the outer period."""
    text = "43 A-49 | 44 LN-50 | 144 LN-51 | 145 RS43:-51 | 146 RE | 147 LN-50 | 150 RS40:-50"
    assert targets("40 C-48 | " + text) == {147: (40, 150), 144: (43, 145), 44: (40, 150)}


def test_bounds_are_exclusive() -> None:
    """R-RB-3."""
    scanner = register("20 C-11 | 30 RS20:-12").scanner(NoLog())
    assert [scanner.find(lsn, -12) is None for lsn in (20, 21, 29, 30, 31)] == [True, False, False, True, True]


def test_periods_and_the_checkpoint() -> None:
    """E-RB-3 last rows, R-RB-5, R-RB-30, T-3."""
    tracker = register("40 C-10 | 43 C-9 | 44 RS43:-50 | 45 RE | 50 RS40:-51 | 51 RE", 46)
    outer, inner = tracker.walk()
    assert (outer.before_checkpoint, inner.before_checkpoint) == (False, True)
    scanner = tracker.scanner(NoLog())
    assert scanner.version_before(inner, 44, -50, invisible=False) is None
    assert scanner.take_invisible() == []
    (open_period,) = register("40 C-10 | 50 RS40:-51", 60).walk()
    assert not open_period.before_checkpoint
    (unknown,) = register("40 C-10 | 50 RS40:-51 | 51 RE").walk()
    assert not unknown.before_checkpoint


def test_several_periods_without_lns_in_a_row() -> None:
    """D-2: JE's scanner would miss 15 and 25 here."""
    text = (
        "10 C-11 | 15 LN-12 | 18 RS10:-12 | 19 RE | 20 C-13 | 25 LN-14 | 28 RS20:-14 | 29 RE | 30 C-15 | "
        "38 RS30:-16 | 39 RE | 40 C-17 | 48 RS40:-18 | 49 RE | 50 C-19 | 58 RS50:-20 | 59 RE"
    )
    assert targets(text) == {15: (10, 18), 25: (20, 28)}


def test_good_logs_with_an_abort_between() -> None:
    """T-2: periods with and without an end, one aborted transaction in between."""
    text = (
        "5 C-11 | 6 LN-12 | 7 LN-13 | 9 RS5:-12,-13 | 10 RE | 11 LN-14 | 12 A-14 | 13 LN-15 | 14 RS12:-15 | "
        "20 C-16 | 21 LN-17 | 25 RS20:-17 | 26 RE | 30 C-18 | 31 LN-19 | 32 LN-20 | 33 RS30:-19"
    )
    assert targets(text) == {
        6: (5, 9), 7: (5, 9), 11: None, 13: (12, 14), 21: (20, 25), 31: (30, 33), 32: None,
    }  # fmt: skip
    assert [(period.start_lsn, period.is_open) for period in register(text).periods] == [
        (33, True), (25, False), (14, True), (9, False),
    ]  # fmt: skip


@pytest.mark.parametrize(("txn_id", "refused"), [(-50, True), (-10, True), (-9, False), (7, False)])
def test_write_in_the_bracket(txn_id: int, refused: bool) -> None:
    """R-RB-22, D-12: in nested brackets too; local transactions may write there."""
    scanner = register("10 C-11 | 20 RS10:-50 | 30 RE | 60 RS10:-50 | 70 RE").scanner(NoLog())
    for lsn in (25, 65):
        if refused:
            with pytest.raises(DamageError, match="between a RollbackStart and its RollbackEnd"):
                scanner.find(lsn, txn_id)
        else:
            assert scanner.find(lsn, txn_id) is None


def test_order_of_use_is_checked() -> None:
    """R-RB-18."""
    tracker = RollbackTracker()
    with pytest.raises(JetoolError, match="before all of them are known"):
        tracker.scanner(NoLog())
    tracker.finish()
    with pytest.raises(JetoolError, match="after all periods are known at 0x0/0x1e"):
        tracker.register_start(RollbackStart(0, 20, 0, ()), 30)
    with pytest.raises(JetoolError):
        tracker.register_end(RollbackEnd(20, 30, 0), 31)
    assert tracker.describe() == "none"


def test_deep_nesting_needs_no_stack() -> None:
    """A hostile log of twenty thousand rollbacks inside each other: no recursion, no endless message."""
    tracker = RollbackTracker()
    depth = 20_000
    for level in range(depth):
        tracker.register_start(RollbackStart(0, 10 + level, 0, (-11,)), 10 + 3 * depth - level)
    tracker.finish()
    assert len(list(tracker.walk())) == depth
    found = tracker.scanner(NoLog()).find(10 + depth + 5, -11)
    assert found is not None
    assert found.matchpoint_lsn == 10 + depth - 1
    assert tracker.describe().endswith("; ...")
