"""Finds where recovery starts: the last checkpoint and its two low water marks, and any problem in finding them.

Rules: with a checkpoint, scan from its undoLWM and redo from its redoLWM (R-DRB-22). Without one, both are the first
byte after the header of log file 1 (R-DRB-30). When the record that the control file names is no checkpoint, both are
the first byte of the file that it names (R-DRB-44). When that file does not exist, Derby starts an empty log and opens
the database with whatever is on its pages; here that is an error (R-DRB-43).
"""

from __future__ import annotations

from typing import NamedTuple

from engine.derby.database import CONTROL, Controls
from engine.derby.format import instant
from engine.derby.format.log_file import HEADER_SIZE
from engine.derby.format.operations.transaction import CheckpointRecord
from engine.derby.log import DerbyLogFiles
from engine.errors import DamageError

FIRST_FILE = 1


class Start(NamedTuple):
    """The start of recovery.

    Attributes:
        checkpoint_at: instant of the last checkpoint record; 0 if there is no checkpoint record.
        checkpoint: the record's fields, None when there is no usable checkpoint.
        undo_lwm: the scan starts here.
        redo_lwm: redo work starts here.
        problem: why the record that the control file names was not used, else None.
    """

    checkpoint_at: int
    checkpoint: CheckpointRecord | None
    undo_lwm: int
    redo_lwm: int
    problem: str | None


def find_start(log: DerbyLogFiles, controls: Controls) -> Start:
    """The start of recovery. DamageError if a needed log file is missing or is not a log file."""
    if controls.checkpoint == instant.NONE:
        return _from_file(log, FIRST_FILE, None)
    at = controls.checkpoint
    # R-DRB-43: Derby would start an empty log here.
    require_file(log, instant.file_of(at))
    found = log.try_record(at) if instant.position_of(at) >= HEADER_SIZE else "it lies inside the header"
    if isinstance(found, str):
        # R-DRB-44: the file that the control file names is still the best place to start the scan.
        return _from_file(log, instant.file_of(at), found)
    if not isinstance(found.operation, CheckpointRecord):
        return _from_file(log, instant.file_of(at), "the record there is no checkpoint")
    marks = found.operation
    # Both marks must be possible positions of records, and undoLWM <= redoLWM <= checkpoint must hold.
    placed = all(instant.position_of(mark) >= HEADER_SIZE for mark in (marks.undo_lwm, marks.redo_lwm))
    if not placed or instant.file_of(marks.undo_lwm) <= 0 or not marks.undo_lwm <= marks.redo_lwm <= at:
        return _from_file(log, instant.file_of(at), "its low water marks make no sense")
    # Undo reads back to undoLWM, so no file in between may be missing.
    for number in range(instant.file_of(marks.undo_lwm), instant.file_of(at) + 1):
        require_file(log, number)
    return Start(at, marks, marks.undo_lwm, marks.redo_lwm, None)


def require_file(log: DerbyLogFiles, number: int) -> None:
    """DamageError when a needed log file is missing or no log file."""
    if log.exists(number):
        log.header(number)
        return
    path = log.path(number)
    raise DamageError(
        f"log file {number} is needed and missing",
        file=log.database.name(path),
        consequence="Derby would start an empty log and open the database in an inconsistent state",
        hint=f"bring {path} back, or restore from a backup",
    )


def _from_file(log: DerbyLogFiles, number: int, problem: str | None) -> Start:
    if not log.exists(number):
        raise DamageError(
            f"no checkpoint is known and log file {number} is missing",
            file=log.database.name(CONTROL),
            consequence="Derby would start an empty log and open the database in an inconsistent state",
            hint=f"bring {log.path(number)} and the control files back, or restore from a backup",
        )
    log.header(number)
    at = instant.make(number, HEADER_SIZE)
    return Start(instant.NONE, None, at, at, problem)
