"""The crash matrix: crash at many points of a log, recover, compare with a model.

The model is the log itself, read without trees: the last committed entry of a record gives its value. The model needs a
log that is complete from its first file on. If files are missing, records expire, or duplicates have the old form, a
recovery is only compared with a second one.

A case passes when recovery succeeds, leaves exactly the records of the model, and a second recovery changes nothing.
The files are never changed: each case runs on a view whose changes stay in memory.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError
from engine.format.bytecursor import join_two_part_key
from engine.format.entry.ln import LN
from engine.format.entry_types import (
    ABORT,
    COMMIT,
    DB_TREE,
    LNS,
    TXN_ENDS,
    type_name,
)
from engine.format.lsn import NULL_LSN
from engine.format.versions import TWO_PART_DUPLICATES
from engine.inspect.crash_points import CrashPoint, apply_crash
from engine.log.entry import LogEntry
from engine.log.files import LogFiles, list_log_files
from engine.log.scan import scan_log
from engine.storage.base import Storage
from engine.storage.overlay import OverlayStorage

Records = dict[int, dict[bytes, bytes]]


class CrashCase(NamedTuple):
    """One crash.

    Attributes:
        point: where.
        passed: whether recovery left exactly the committed records.
        compared: whether the result was compared with a model.
        problem: what is wrong; empty if the case passed.
        records: records afterwards.
    """

    point: CrashPoint
    passed: bool
    compared: bool
    problem: str
    records: int


class _ModelChange(NamedTuple):
    """An entry that changes the model: a record with its transaction (0: none), or the end of a transaction."""

    lsn: int
    kind: int
    txn_id: int
    db_id: int
    key: bytes
    data: bytes | None


class CommittedModel:
    """The committed records at each place of a log.

    Arguments:
        storage, files: the log.

    Attributes:
        has_gaps: log files have been deleted.
        usable: whether the model is complete enough to compare with.
    """

    def __init__(self, storage: Storage, files: LogFiles) -> None:
        self._steps: list[_ModelChange] = []
        numbers = [file.number for file in files.files]
        # File numbers begin at 0 and have no gap until the cleaner deletes a file (R-LOG-14).
        self.has_gaps = numbers != list(range(len(numbers)))
        self.usable = not self.has_gaps
        for item in scan_log(storage, files).entries():
            if isinstance(item, LogEntry):
                self._take(item)

    def at(self, end_lsn: int) -> Records:
        """The records that are committed in the log up to a place, by database id."""
        found: Records = {}
        pending: dict[int, list[_ModelChange]] = {}
        for step in self._steps:
            if step.lsn >= end_lsn:
                break
            if step.kind == COMMIT:
                for done in pending.pop(step.txn_id, ()):
                    _write(found, done)
            elif step.kind == ABORT:
                pending.pop(step.txn_id, None)
            elif step.txn_id:
                pending.setdefault(step.txn_id, []).append(step)
            else:
                _write(found, step)
        return found

    def _take(self, entry: LogEntry) -> None:
        # The model covers neither duplicates of the old form nor rollbacks, which only a replicated log has.
        if entry.version < TWO_PART_DUPLICATES or entry.replicated:
            self.usable = False
        if entry.type_number in TXN_ENDS:
            self._steps.append(
                _ModelChange(entry.lsn, entry.type_number, getattr(entry.record(), "id", 0), 0, b"", None)
            )
        elif entry.type_number in LNS:
            record = entry.record()
            if isinstance(record, LN) and record.content is None:
                # Whether an expiring record still exists after recovery depends on the clock.
                self.usable = self.usable and not record.expiration
                self._steps.append(
                    _ModelChange(entry.lsn, 0, record.txn_id or 0, record.db_id, record.key, record.data)
                )


def eligible_points(points: list[CrashPoint], model: CommittedModel, mode: str) -> list[CrashPoint]:
    """The points at which a crash could really have happened, given the files that the log still has.

    Before its first root, an environment is still being created. If files are missing, the crash must come after the
    checkpoint that allowed their deletion. Mode no-fsync needs a checkpoint before the point.
    """
    roots = [point.lsn for point in points if point.type_name == type_name(DB_TREE)]
    found = [point for point in points if roots and point.lsn > roots[0]]
    if model.has_gaps:
        last = max((point.synced_lsn for point in points), default=NULL_LSN)
        found = [point for point in found if point.synced_lsn == last]
    return [point for point in found if mode != "no-fsync" or point.synced_lsn != NULL_LSN]


def run_case(
    storage: Storage, files: LogFiles, model: CommittedModel, point: CrashPoint, mode: str, seed: int
) -> CrashCase:
    """Crash at one point, recover, compare."""
    view = OverlayStorage(storage)
    try:
        effect = apply_crash(view, files, point, mode, seed)
        found = _recovered(view)
        again = _recovered(view)
    except JetoolError as error:
        return CrashCase(point, False, False, str(error), 0)
    count = sum(len(records) for records in found.values())
    compared = model.usable and effect.end_lsn != NULL_LSN
    if found != again:
        return CrashCase(point, False, compared, "a second recovery changed the records", count)
    if compared:
        # A torn entry does not belong to the log, so the model ends before it.
        end = min(effect.end_lsn, point.lsn) if mode == "torn-write" else effect.end_lsn
        expected = model.at(end)
        for db_id, records in found.items():
            if records != expected.get(db_id, {}):
                return CrashCase(point, False, True, f"database {db_id} does not hold what was committed", count)
    return CrashCase(point, True, compared, "", count)


def _recovered(storage: Storage) -> Records:
    list_log_files(storage)
    with Environment(storage, EnvironmentConfig(guess_orders=True)) as env:
        found: Records = {}
        for name in env.database_names():
            with env.open_database(name) as db:
                join = db.duplicates
                # Duplicates as the log has them: the item is part of the key.
                found[db.state.id] = {(join_two_part_key(k, d) if join else k): b"" if join else d for k, d in db}
    return found


def _write(found: Records, step: _ModelChange) -> None:
    records = found.setdefault(step.db_id, {})
    if step.data is None:
        records.pop(step.key, None)
    else:
        records[step.key] = step.data
