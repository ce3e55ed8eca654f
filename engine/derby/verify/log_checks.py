"""Checks of the log: groups, chain, transactions, the end and what follows it.

The scan starts at the first log file that exists, which may be older than recovery needs. If that older part is
damaged, a note reports it. A second scan starts at the undo low water mark, so that the part needed by recovery is
always checked.

The second scan follows three things at once. Transactions: every record belongs to one that has begun, except those of
T1 in the diagram (R-DRB-31). Page versions: a break means that a record is missing in the middle (``page_versions``).
Containers: those that the log names, creates and removes (``presence``).

The bytes after the end decide the severity: committed transactions (DRB-LOG-002) are lost when Derby starts; a torn
write without any (DRB-LOG-001) is what a crash leaves; stale bytes (DRB-LOG-009) may be taken for records after the
next crash.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.derby.checkpoint import ARCHIVE_PROPERTY
from engine.derby.database import CONTROL, Controls
from engine.derby.format import instant
from engine.derby.format.log_file import HEADER_SIZE
from engine.derby.format.operations.transaction import Checksum
from engine.derby.format.record import CHECKSUM, RAW_STORE, Record
from engine.derby.log import DerbyLogFiles, ForwardScan, ScanEnd
from engine.derby.log_tail import look_after_end
from engine.derby.page_versions import PageVersions
from engine.derby.presence import ContainerNotes
from engine.derby.recovery.start import Start, find_start
from engine.derby.verify.findings import NOTE, WARNING, DerbyFinding, finding
from engine.derby.xact_table import XactTable
from engine.errors import DamageError, plural
from engine.events import Listener

_STEP = 1024
_GUARD = CHECKSUM | RAW_STORE


class LogFacts(NamedTuple):
    """The facts collected by the scan.

    Attributes:
        start: where recovery starts.
        versions: versions of pages in the log.
        notes: containers in the log.
        table: the open transactions.
        complete: whether the scan reached the checkpoint.
        settled: whether there is nothing to redo or undo, so that the pages on disk are current.
    """

    start: Start
    versions: PageVersions
    notes: ContainerNotes
    table: XactTable
    complete: bool
    settled: bool


class LogCheck(NamedTuple):
    """The result; ``facts`` is None if the scan has no place to start from."""

    findings: list[DerbyFinding]
    records: int
    log_bytes: int
    facts: LogFacts | None


def check_log(log: DerbyLogFiles, controls: Controls, listener: Listener) -> LogCheck:
    """Check everything that is in the log directory."""
    findings: list[DerbyFinding] = []
    try:
        start = find_start(log, controls)
    except DamageError as error:
        findings.append(finding("DRB-LOG-003", str(error), file=CONTROL))
        return LogCheck(findings, 0, 0, None)
    if start.problem is not None:
        message = f"the control file names {instant.show(controls.checkpoint)}, but {start.problem}"
        findings.append(finding("DRB-CTL-007", message, file=CONTROL, at=controls.checkpoint))
    # Recovery does not need this part, so damage there is reported and skipped.
    findings += _check_older(log, start)
    scan = _Scan(log, start, listener)
    end = scan.run()
    findings += scan.findings
    findings += _check_checkpoint(log, start, end)
    findings += check_end(log, end)
    findings += _open_transactions(scan.table)
    # A log that ends early gives no upper bound for the versions of pages.
    complete = end.append >= start.redo_lwm and scan.consistent
    settled = complete and not scan.notes.named and not scan.table.open
    facts = LogFacts(start, scan.versions, scan.notes, scan.table, complete, settled)
    return LogCheck(findings, scan.records, scan.bytes, facts)


def _check_older(log: DerbyLogFiles, start: Start) -> list[DerbyFinding]:
    """Log files before the undo low water mark, as far as they exist."""
    numbers = log.numbers()
    oldest = instant.file_of(start.undo_lwm)
    # Start at the first of the files that lead to the mark without a gap.
    while oldest - 1 in numbers:
        oldest -= 1
    try:
        log.header(oldest)
    except DamageError as error:
        return [old_damage(log, str(error), instant.make(oldest, 0))]
    scan = ForwardScan(log, instant.make(oldest, HEADER_SIZE))
    for one in scan:
        # The scan has reached the part that recovery reads: the older part is whole.
        if one.instant >= start.undo_lwm:
            return []
    end = scan.end
    if end is None or end.stopped_at >= start.undo_lwm:
        return []
    message = f"the log in front of the undo low water mark cannot be read: {end.reason}"
    return [old_damage(log, message, end.stopped_at)]


def old_damage(log: DerbyLogFiles, message: str, at: int) -> DerbyFinding:
    """Damage that neither recovery nor a running Derby reads: it affects only a roll-forward of an archived log."""
    archived = log.database.properties.get(ARCHIVE_PROPERTY, "").lower() == "true"
    return finding(
        "DRB-LOG-006",
        message,
        file=log.path(instant.file_of(at)),
        at=at if instant.position_of(at) else instant.NONE,
        severity=WARNING if archived else NOTE,
        consequence="recovery does not read this part; only a roll-forward from an older backup would stop there",
        remedy="take a new backup, which needs no older log files" if archived else "none is needed",
    )


class _Scan:
    """The scan from the undo low water mark: transactions, page versions, containers."""

    __slots__ = (
        "_listener",
        "_start",
        "bytes",
        "consistent",
        "findings",
        "log",
        "notes",
        "records",
        "table",
        "versions",
    )

    def __init__(self, log: DerbyLogFiles, start: Start, listener: Listener) -> None:
        self.log = log
        self._start = start
        self._listener = listener
        self.table = XactTable(start.redo_lwm)
        self.versions = PageVersions(log, start.redo_lwm, self._report)
        self.notes = ContainerNotes(log.database, start.redo_lwm)
        self.findings: list[DerbyFinding] = []
        self.records = 0
        self.bytes = 0
        self.consistent = True

    def run(self) -> ScanEnd:
        scan = ForwardScan(self.log, self._start.undo_lwm)
        for one in scan:
            self.records += 1
            self.bytes += one.end - one.instant
            if self.records % _STEP == 0:
                self._listener.step("log", self.bytes, 0)
            # Report only the first inconsistency; its consequences would hide it.
            if self.consistent:
                try:
                    self.table.see(one)
                except DamageError as error:
                    self.consistent = False
                    self._report("DRB-LOG-007", one, error.what)
            problem = guard_problem(one)
            if problem is not None:
                self._report("DRB-LOG-006", one, problem)
            self.notes.see(one)
            self.versions.see(one)
        assert scan.end is not None
        return scan.end

    def _report(self, code: str, one: Record, message: str) -> None:
        path = self.log.path(instant.file_of(one.instant))
        self.findings.append(finding(code, message, file=path, at=one.instant))


def guard_problem(one: Record) -> str | None:
    """Why a checksum record guards nothing; None for a sound one and for any other record."""
    # Without its flag a checksum record guards nothing, and the flag itself is not covered by a checksum.
    if not isinstance(one.operation, Checksum) or one.group == _GUARD:
        return None
    return f"a checksum record has the flags {one.group:#x}, not {_GUARD:#x}"


def _check_checkpoint(log: DerbyLogFiles, start: Start, end: ScanEnd) -> list[DerbyFinding]:
    """Whether the log reaches its last checkpoint."""
    promised = max(start.redo_lwm, start.checkpoint_at)
    # The checkpoint counts records up to here as logged, and their pages may be written.
    if end.append > promised or start.checkpoint is None:
        return []
    message = f"the log ends in front of its last checkpoint {instant.show(promised)}: {end.reason}"
    return [finding("DRB-LOG-008", message, file=log.path(instant.file_of(end.stopped_at)), at=end.stopped_at)]


def check_end(log: DerbyLogFiles, end: ScanEnd) -> list[DerbyFinding]:
    """The end of the log and everything after it."""
    findings = []
    path = log.path(instant.file_of(end.stopped_at))
    if end.obstacle is not None:
        following = log.path(instant.file_of(end.stopped_at) + 1)
        findings.append(finding("DRB-LOG-004", end.obstacle, file=following))
    after = look_after_end(log, end)
    # Report one finding for the end of the log: the most severe that applies.
    if after.commits:
        message = (
            f"{end.reason}; after it {plural(after.records, 'valid record')}, "
            f"{plural(after.commits, 'commit')} among them, "
            f"from {instant.show(after.first)} to {instant.show(after.last)}"
        )
        findings.append(finding("DRB-LOG-002", message, file=path, at=end.stopped_at))
    elif end.derby_fails:
        findings.append(finding("DRB-LOG-010", f"no end of the log: {end.reason}", file=path, at=end.stopped_at))
    elif end.fuzzy:
        message = f"the log ends in a torn write: {end.reason}"
        findings.append(finding("DRB-LOG-001", message, file=path, at=end.stopped_at))
    elif after.other_bytes:
        message = f"bytes stand after the end of the log ({plural(after.records, 'valid record')} among them)"
        findings.append(finding("DRB-LOG-009", message, file=path, at=end.append))
    # The text of an obstacle already names its file.
    if end.obstacle is None:
        findings += [
            finding("DRB-LOG-005", f"log file {number} does not continue the log", file=log.path(number))
            for number in after.files
        ]
    return findings


def _open_transactions(table: XactTable) -> list[DerbyFinding]:
    findings = []
    for one in table.losers():
        kind = "internal transaction" if one.internal else "transaction"
        message = f"{kind} {one.number} is not ended; {plural(len(one.instants), 'record')}"
        findings.append(finding("DRB-REC-001", message, at=one.first))
    for one in table.in_doubt():
        findings.append(finding("DRB-REC-002", f"transaction {one.number} is prepared, not ended", at=one.first))
    return findings
