"""The start and end of a Derby log for recovery, and warnings about them."""

from __future__ import annotations

from typing import NamedTuple

from engine.derby.database import Controls, DerbyDatabase
from engine.derby.format import instant
from engine.derby.log import DerbyLogFiles, ForwardScan, ScanEnd
from engine.derby.log_tail import look_after_end
from engine.derby.recovery.start import Start, find_start
from engine.derby.verify.findings import ERROR
from engine.derby.verify.log_checks import check_log
from engine.errors import DamageError, plural
from engine.events import SILENT
from engine.storage.posix_locks import holder_in_words
from jetool.frame.options import Run
from jetool.output.shape import instant_text


class LogBounds(NamedTuple):
    """The start and end of the log for recovery.

    Attributes:
        start: the start; None if it cannot be found.
        end: the end; None if the start cannot be found.
        last: instant of the last record before the end; 0 if there is no such record.
        problem: why the start cannot be found, else None.
    """

    start: Start | None
    end: ScanEnd | None
    last: int
    problem: str | None


def find_ends(log: DerbyLogFiles, controls: Controls) -> LogBounds:
    """Find the places where recovery would start and stop reading."""
    try:
        start = find_start(log, controls)
    except DamageError as error:
        # Do not fail: commands that only read can print the log although recovery could not start.
        return LogBounds(None, None, instant.NONE, str(error))
    # Scan from the undo low water mark, as Derby does; the log ends where this scan stops.
    scan = ForwardScan(log, start.undo_lwm)
    last = instant.NONE
    for one in scan:
        last = one.instant
    return LogBounds(start, scan.end, last, None)


def warn_of_ends(run: Run, database: DerbyDatabase, log: DerbyLogFiles, ends: LogBounds) -> None:
    """Warn about problems at the end of the log, whether or not that part is printed."""
    hint = f"jetool verify {database.storage.root}"
    if ends.end is None:
        what = f"the end of the log cannot be determined: {ends.problem}"
        run.messages.warning(what, hint=hint, consequence="records after it are not marked")
        return
    leftovers = look_after_end(log, ends.end)
    if leftovers.records:
        run.messages.warning(
            f"{plural(leftovers.records, 'valid record lies', 'valid records lie')} after the end of the log, "
            f"{plural(leftovers.commits, 'commit')} among them",
            lsn=instant_text(ends.end.append),
            consequence="Derby drops them without a word",
            hint=hint,
        )


def is_harmful(log: DerbyLogFiles, controls: Controls) -> bool:
    """Whether the damage is more than a torn tail."""
    # Use the check of ``verify``, so that both commands agree about harmful damage.
    return any(found.severity == ERROR for found in check_log(log, controls, SILENT).findings)


def note_holder(run: Run, database: DerbyDatabase) -> None:
    """Print a notice if a JVM has the database open."""
    holder = database.lock_holder()
    if holder is not None:
        run.messages.notice(
            f"{holder_in_words(holder)} has the database open; the end of the log may change",
            file=database.storage.root,
        )
