"""The rollback tracker over logs that real JE wrote: same periods, same refusals, same invisible entries as JE."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.errors import DamageError
from engine.format.entry.ln import LN
from engine.format.entry.rollback import RollbackEnd, RollbackStart
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import BY_NUMBER, COMMIT
from engine.format.lsn import NULL_LSN, format_lsn, parse_lsn
from engine.recovery.rollback_tracker import RollbackPeriod, RollbackTracker
from tests.support.logs.reallog import RealLog

GROUPS = [
    "je-18.3.20/ha-group", "je-18.3.20/ha-rollback", "je-18.3.20/ha-rollback-begun", "je-18.3.20/ha-rollback-ckpt",
    "je-18.3.20/ha-rollback-hidden", "je-18.3.20/ha-rollback-thrice", "je-25.3.17/ha-rollback", "je-25.3.17/ha-group",
    "je-7.5.11/ha-group", "je-7.5.11/ha-rollback",
]  # fmt: skip
SCRIPTED = [
    "je-18.3.20/rollback-before-ckpt", "je-18.3.20/rollback-four-periods", "je-18.3.20/rollback-four-periods-literal",
    "je-18.3.20/rollback-open-ended", "je-18.3.20/rollback-straddle", "je-18.3.20/vlsn-range",
]  # fmt: skip
ENVIRONMENTS = [f"{group}/node{number}" for group in GROUPS for number in (1, 2, 3)] + SCRIPTED
REFUSED = ["je-18.3.20/rollback-overlap", "je-18.3.20/rollback-commit-inside"]


def track(log: RealLog) -> RollbackTracker:
    """Pass 3."""
    checkpoint = log.checkpoint()
    tracker = RollbackTracker(checkpoint.ckpt_start_lsn)
    for entry in log.backward(checkpoint.first_active_lsn):
        if entry.type_name not in ("Commit", "RollbackStart", "RollbackEnd"):
            continue
        record: object = entry.record()
        if isinstance(record, TxnEnd) and entry.type_number == COMMIT:
            tracker.check_commit(record.id, entry.lsn)
        elif isinstance(record, RollbackStart):
            tracker.register_start(record, entry.lsn)
        elif isinstance(record, RollbackEnd):
            tracker.register_end(record, entry.lsn)
    tracker.finish(checkpoint.first_active_lsn)
    return tracker


def roll_back(log: RealLog, tracker: RollbackTracker) -> list[str]:
    """Pass 7 as far as it concerns periods; what becomes invisible."""
    scanner = tracker.scanner(log)
    for entry in log.backward(log.checkpoint().first_active_lsn):
        entry_type = BY_NUMBER[entry.type_number]
        if entry_type.family != "ln" or not entry_type.transactional:
            continue
        ln: object = entry.record()
        assert isinstance(ln, LN)
        assert ln.txn_id is not None
        period = scanner.find(entry.lsn, ln.txn_id)
        if period is not None:
            info = scanner.version_before(period, entry.lsn, ln.txn_id, invisible=entry.invisible)
            assert (info is None) == period.before_checkpoint
    # Every LN of every chain was met.
    for period in tracker.walk():
        for txn_id in period.active_txn_ids or ():
            assert len(period.chain(txn_id, NULL_LSN, log)) == 0
    return [format_lsn(lsn) for lsn in scanner.take_invisible()]


def as_json(periods: list[RollbackPeriod]) -> list[Any]:
    return [
        {
            "matchpoint": format_lsn(period.matchpoint_lsn),
            "rollbackStart": format_lsn(period.start_lsn),
            "rollbackEnd": None if period.is_open else format_lsn(period.end_lsn),
            "beforeCheckpointStart": period.before_checkpoint,
            "activeTxnIds": None if period.active_txn_ids is None else sorted(period.active_txn_ids),
            "children": as_json(period.children),
        }
        for period in periods
    ]


def with_sorted_ids(periods: list[Any]) -> list[Any]:
    for period in periods:
        if period["activeTxnIds"] is not None:
            period["activeTxnIds"].sort()
        with_sorted_ids(period["children"])
    return periods


def expected(corpus: Path, name: str, file: str) -> Any:
    return json.loads((corpus / "je" / name / "expected" / file).read_text())


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_periods_equal_those_of_je(corpus: Path, name: str) -> None:
    log = RealLog(corpus / "je" / name / "env")
    tracker = track(log)
    made_invisible = roll_back(log, tracker)
    assert made_invisible == expected(corpus, name, "after-recovery.json")["madeInvisible"]
    rollback = expected(corpus, name, "rollback.json")
    if "periods" in rollback:
        assert rollback["refused"] is None
        assert parse_lsn(rollback["checkpointStart"]) == log.checkpoint().ckpt_start_lsn
        assert as_json(tracker.periods) == with_sorted_ids(rollback["periods"])


@pytest.mark.parametrize("name", REFUSED)
def test_refused_like_je(corpus: Path, name: str) -> None:
    """The error names the same entry as JE's does."""
    refused = expected(corpus, name, "rollback.json")["refused"]
    with pytest.raises(DamageError) as caught:
        track(RealLog(corpus / "je" / name / "env"))
    assert caught.value.lsn is not None
    assert f" at {caught.value.lsn}" in refused
