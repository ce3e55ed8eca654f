"""Is a repair unfinished? Then the log on disk is neither the one before it nor the one after it."""

from __future__ import annotations

from typing import Final

from engine.format.lsn import NULL_LSN
from engine.storage.base import Storage
from engine.storage.journal import MARKER, PendingRepair, pending_in
from engine.verify.report import ERROR, Finding, Rule

RULE: Final = Rule(
    "JE-REPAIR-001",
    ERROR,
    "a repair was interrupted",
    "the files are neither as before the repair nor as it leaves them; other findings are about this state",
    "jetool undo takes it back, also an undo that was interrupted; the repair itself, run again, begins anew",
)
_LOCKS: Final = ("je.lck", "dbex.lck")


def interrupted(storage: Storage) -> PendingRepair | None:
    """The contents of the marker if no repair is running; None without a marker."""
    pending = pending_in(storage)
    # A process holds the lock: its repair is running.
    if pending is None or any(_is_locked(storage, path) for path in _LOCKS):
        return None
    return pending


def check_repairs(storage: Storage) -> tuple[Finding, ...]:
    """The finding, when there is one."""
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


def _is_locked(storage: Storage, path: str) -> bool:
    return storage.stat(path) is not None and storage.lock_holder(path, 0) is not None
