"""Detecting an unfinished repair, which leaves the log between its old and its new state."""

from __future__ import annotations

from typing import Final

from engine.format.lsn import NULL_LSN
from engine.storage.base import Storage
from engine.storage.journal import MARKER, PendingRepair, is_at_work, pending_in
from engine.verify.report import ERROR, Finding, Rule

RULE: Final = Rule(
    "JE-REPAIR-001",
    ERROR,
    "a repair was interrupted",
    "the files are neither as before the repair nor as it leaves them; other findings are about this state",
    "jetool undo undoes the repair, and finishes an interrupted undo; the repair, run again, starts anew",
)


def interrupted(storage: Storage) -> PendingRepair | None:
    """The content of the marker of an interrupted repair; None without a marker, or while a repair is running."""
    pending = pending_in(storage)
    return None if pending is None or is_at_work(storage) else pending


def check_repairs(storage: Storage) -> tuple[Finding, ...]:
    """The finding about an unfinished repair, if any."""
    pending = interrupted(storage)
    if pending is None:
        return ()
    said = f"{pending.command} was interrupted, or its undo; the saved bytes are in {pending.backup}"
    finding = Finding(
        code=RULE.code,
        severity=RULE.severity,
        lsn=NULL_LSN,
        file=MARKER,
        db=None,
        key=None,
        message=said,
        consequence=RULE.consequence,
        remedy=RULE.remedy,
    )
    return (finding,)
