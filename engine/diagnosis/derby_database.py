"""The diagnosis of a Derby database: its control files and log, and recovery in memory.

Pages are not read but where recovery needs them: ``jetool verify`` reads all, which takes minutes for gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.derby.database import CONTROL, LOCK_FILE, MIRROR, DerbyDatabase
from engine.derby.database_info import DatabaseSurvey, gather
from engine.derby.format import container, instant
from engine.derby.log import DerbyLogFiles
from engine.derby.presence import STOPS
from engine.derby.recovery.manager import RecoveryOptions, recover
from engine.derby.verify.check import DerbyReport, verify
from engine.derby.verify.findings import ERROR, DerbyFinding
from engine.diagnosis import rules
from engine.diagnosis.readiness import lock_reason, permission_reasons
from engine.diagnosis.record import (
    DERBY,
    TRANSACTION,
    Diagnosis,
    DiagnosisOptions,
    Identity,
    LogVersionSpan,
    Loss,
    LostName,
    Reason,
    judge,
)
from engine.diagnosis.rules import reason
from engine.diagnosis.steps import StepFacts, derby_steps
from engine.errors import DamageError, JetoolError, RefusedError, StorageError, UnsupportedError
from engine.rescue.repair.settlement import as_before
from engine.storage.disk import DiskStorage
from engine.verify import repairs

# Findings with which Derby does not start.
_STOPPING: Final = ("DRB-DB-002", "DRB-LOG-004", "DRB-LOG-007", "DRB-LOG-010", "DRB-REC-003")
_REPAIR: Final = "DRB-REPAIR-001"
_LOCKED: Final = "DRB-DB-001"
_MISSING: Final = "DRB-CONT-002"
_CONTROL: Final = "DRB-CTL-001"
_ANCIENT_BYTES: Final = 16
_NOTHING_LOST: Final = Loss()


def diagnose_derby(directory: str, options: DiagnosisOptions) -> Diagnosis:
    """Diagnose a database; nothing is changed.

    Raises:
        NotFoundError: no database. StorageError: the directory cannot be read.
    """
    disk = DiskStorage(directory)
    database = DerbyDatabase(disk)
    try:
        found = gather(database, listener=options.listener)
        report = verify(database, pages=False, listener=options.listener)
    except UnsupportedError as error:
        return _unsupported(database, error)
    preview = _previewed(disk, found, report, options)
    reasons = tuple(_reasons(database, found, report, preview.stops))
    loss = _loss(found)
    unknown = "a repair was interrupted; undo it first" if repairs.check_repairs(disk) else preview.unknown
    can_start, verdict = judge(reasons, loss, unknown)
    not_checked = ("recovery", *report.not_checked) if preview.unknown else report.not_checked
    last = DerbyLogFiles(database).numbers()[-1:]
    steps = derby_steps(
        StepFacts(
            path=directory,
            application=DERBY,
            can_start=can_start,
            codes=frozenset(one.code for one in reasons if one.severity == ERROR),
            loss=loss,
            damage="",
            last_file=DerbyLogFiles(database).path(last[0]) if last else CONTROL,
        )
    )
    return Diagnosis(
        directory=directory,
        identity=_identity(database, found),
        can_start=can_start,
        verdict=verdict,
        journals=None,
        reasons=reasons,
        loss=loss,
        next=steps,
        not_checked=not_checked,
    )


class _Preview(NamedTuple):
    """Recovery in memory.

    Attributes:
        stops: the error at which Derby would stop too.
        unknown: why it is not known whether Derby would start.
    """

    stops: JetoolError | None = None
    unknown: str = ""


def _previewed(disk: DiskStorage, found: DatabaseSurvey, report: DerbyReport, options: DiagnosisOptions) -> _Preview:
    try:
        recover(as_before(disk), RecoveryOptions(accept_loss=True), dry_run=True, listener=options.listener)
    except DamageError as error:
        # A log whose beginning is lost, or that ends before its checkpoint, Derby may open with wrong contents.
        if found.analysis is None or any(one.severity == ERROR and _is_of_log(one) for one in report.findings):
            return _Preview(unknown=f"recovery stops, but Derby may open it with wrong contents: {error.what}")
        return _Preview(stops=error)
    except (RefusedError, StorageError, UnsupportedError) as error:
        # The log of a newer release is checked, but this program does not recover it: it may lack what redo needs.
        return _Preview(unknown=f"recovery could not be tried: {error.what}")
    return _Preview()


def _is_of_log(one: DerbyFinding) -> bool:
    return one.code.startswith(("DRB-LOG", "DRB-CTL")) and one.code != "DRB-LOG-002"


def _reasons(
    database: DerbyDatabase, found: DatabaseSurvey, report: DerbyReport, stops: JetoolError | None
) -> Iterator[Reason]:
    yield from lock_reason(found.lock_holder, LOCK_FILE)
    log = DerbyLogFiles(database)
    paths = [path for path in (CONTROL, MIRROR) if database.storage.stat(path) is not None]
    paths += [container.path_of(key) for key, is_stub in database.containers().items() if not is_stub]
    paths += [log.path(number) for number in log.numbers()]
    if database.device is None:
        yield from permission_reasons(database.storage.root, paths, paths)
    yield from (rules.of_finding(one)._replace(code=_REPAIR) for one in repairs.check_repairs(database.storage))
    must_have = found.analysis is not None and any(one.loss == STOPS for one in found.analysis.presence.lost)
    for one in report.findings:
        if one.code != _LOCKED:
            stopping = one.code in _STOPPING or (one.code == _MISSING and must_have)
            yield _of_finding(one, stops=stopping or (one.code == _CONTROL and _is_ancient(database)))
    if stops is not None and not must_have:
        name = (stops.file or "").rpartition("/")[2]
        yield reason(rules.NOT_OPENED, f"{stops.what} ({name})" if name else stops.what, stops=True, file=name or None)


def _is_ancient(database: DerbyDatabase) -> bool:
    """Whether ``log.ctrl`` has the form of a release that Derby cannot start (R-DRB-41); it ignores the mirror then."""
    found = database.storage.stat(CONTROL)
    return found is not None and found.size_bytes == _ANCIENT_BYTES


def _of_finding(one: DerbyFinding, *, stops: bool) -> Reason:
    return Reason(
        code=one.code,
        severity=one.severity,
        stops=stops,
        text=one.message,
        consequence=one.consequence,
        remedy=one.remedy,
        file=one.file,
        place=instant.show(one.instant) if one.instant else None,
    )


def _loss(found: DatabaseSurvey) -> Loss:
    if found.analysis is None:
        return _NOTHING_LOST
    after = found.analysis.after
    names = tuple(
        LostName(kind=TRANSACTION, db=None, name=str(number), key=None, place=instant.show(after.first), certain=True)
        for number in after.transactions
    )
    return Loss(commits=after.commits, names=names, unnamed=after.commits - len(names))


def _identity(database: DerbyDatabase, found: DatabaseSurvey | None) -> Identity:
    log = DerbyLogFiles(database)
    numbers = log.numbers()
    sizes = [database.storage.stat(container.path_of(key)) for key in database.containers()]
    known = found.release if found is not None else None
    release = "" if known is None else f"{known[0]}.{known[1]}"
    kind = "page store of jetool in Derby's format" if database.is_page_store else "Apache Derby database"
    return Identity(
        application=DERBY,
        title=kind,
        node=None,
        role=None,
        group=None,
        group_uuid=None,
        members=(),
        versions=(LogVersionSpan(version=release, first_file=numbers[0], last_file=numbers[-1]),)
        if release and numbers
        else (),
        release=f"Derby {release} and later" if release else "",
        files=len(numbers) + len(sizes),
        bytes=sum(log.size(number) for number in numbers) + sum(one.size_bytes for one in sizes if one is not None),
        last_time=None,
    )


def _unsupported(database: DerbyDatabase, error: UnsupportedError) -> Diagnosis:
    return Diagnosis(
        directory=database.storage.root,
        identity=_identity(database, None),
        can_start="unknown",
        verdict=f"cannot be judged: {error.what}",
        journals=None,
        reasons=(),
        loss=_NOTHING_LOST,
        next=(),
        not_checked=("the log and the pages",),
        supported=False,
    )
