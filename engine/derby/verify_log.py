"""Checks of the log: groups, chain, transactions, the end and what follows it.

The scan starts at the first log file that exists, which may be older than recovery needs. When that older part is
damaged the finding says so, and a second scan starts at the undo low water mark, so that the part that matters is
checked in any case.

The second scan follows three things at once. Transactions: every record but those of T1 in the diagram (R-DRB-31)
belongs to one that has begun. Page versions: each record of a page must carry the version that the record in front of
it led to, where a purge of n rows counts n (R-DRB-4); a break means that a record is missing in the middle. Containers:
which ones the log names, makes and removes.

At the end, what follows it decides how bad it is: committed transactions (DRB-LOG-002) are lost when Derby starts;
a torn write without any (DRB-LOG-001) is what a crash leaves; stale bytes (DRB-LOG-009) may be taken for records after
the next crash.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from engine.derby.database import CONTROL, Controls
from engine.derby.findings import NOTE, DerbyFinding, finding
from engine.derby.format import instant
from engine.derby.format.log_file import HEADER_SIZE
from engine.derby.format.operations import container, page, registry
from engine.derby.format.record import Record
from engine.derby.log import DerbyLogFiles, ForwardScan, ScanEnd
from engine.derby.log_tail import look_after_end
from engine.derby.loggable import raised_by, raised_by_undo
from engine.derby.recovery.start import Start, find_start
from engine.derby.xact_table import XactTable
from engine.errors import DamageError, FormatError
from engine.events import Listener

_STEP = 1024

PageKey: TypeAlias = tuple[int, int, int]


class VersionRange(NamedTuple):
    """What the log says of a page from the redo low water mark on.

    Attributes:
        first: version in front of the first record.
        last: version after the last record.
        first_at: instant of the first record.
        recreated: whether the first record initialises the page, so that a missing page is made again.
    """

    first: int
    last: int
    first_at: int
    recreated: bool


class Ranges(NamedTuple):
    """Pages and containers that the log names from the redo low water mark on."""

    pages: dict[PageKey, VersionRange]
    containers: dict[tuple[int, int], int]
    created: set[tuple[int, int]]
    removed: set[tuple[int, int]]


class LogCheck(NamedTuple):
    """The result.

    ``complete`` says whether the scan reached what the checkpoint promises, ``settled`` whether there is nothing to
    redo or undo, so that the pages on disk say all.
    """

    findings: list[DerbyFinding]
    records: int
    log_bytes: int
    ranges: Ranges
    complete: bool
    settled: bool


def check_log(log: DerbyLogFiles, controls: Controls, listener: Listener) -> LogCheck:
    """Check everything that is in the log directory."""
    findings: list[DerbyFinding] = []
    try:
        start = find_start(log, controls)
    except DamageError as error:
        findings.append(finding("DRB-LOG-003", str(error), file=CONTROL))
        return LogCheck(findings, 0, 0, Ranges({}, {}, set(), set()), False, False)
    if start.problem is not None:
        message = f"the control file names {instant.show(controls.checkpoint)}, but {start.problem}"
        findings.append(finding("DRB-CTL-007", message, file=CONTROL, at=controls.checkpoint))
    # Recovery does not need this part, so damage there is reported and stepped over.
    findings += _check_older(log, start)
    scan = _Scan(log, start, listener)
    end = scan.run()
    findings += scan.findings
    findings += _check_end(log, start, end)
    findings += _open_transactions(scan.table)
    # A log that ends early says nothing of the versions of pages.
    complete = end.append >= start.redo_lwm and scan.consistent
    settled = complete and not scan.ranges.containers and not scan.table.open
    return LogCheck(findings, scan.records, scan.bytes, scan.ranges, complete, settled)


def _check_older(log: DerbyLogFiles, start: Start) -> list[DerbyFinding]:
    """Log files in front of the undo low water mark, as far as they exist."""
    numbers = log.numbers()
    oldest = instant.file_of(start.undo_lwm)
    # Only an unbroken run of files can be scanned up to the mark.
    while oldest - 1 in numbers:
        oldest -= 1
    try:
        log.header(oldest)
    except DamageError as error:
        return [finding("DRB-LOG-006", str(error), file=log.path(oldest), severity=NOTE)]
    scan = ForwardScan(log, instant.make(oldest, HEADER_SIZE))
    for one in scan:
        # The scan has reached the part that recovery reads: the older part is whole.
        if one.instant >= start.undo_lwm:
            return []
    end = scan.end
    if end is None or end.stopped_at >= start.undo_lwm:
        return []
    message = f"the log in front of the undo low water mark cannot be read: {end.reason}"
    path = log.path(instant.file_of(end.stopped_at))
    return [finding("DRB-LOG-006", message, file=path, at=end.stopped_at)]


class _Scan:
    """The scan from the undo low water mark: transactions, page versions, containers."""

    __slots__ = ("_listener", "_start", "bytes", "consistent", "findings", "log", "ranges", "records", "table")

    def __init__(self, log: DerbyLogFiles, start: Start, listener: Listener) -> None:
        self.log = log
        self._start = start
        self._listener = listener
        self.table = XactTable(start.redo_lwm)
        self.ranges = Ranges({}, {}, set(), set())
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
            self._see(one)
        assert scan.end is not None
        return scan.end

    def _see(self, one: Record) -> None:
        # One inconsistency is reported; those that follow from it would hide it.
        if self.consistent:
            try:
                self.table.see(one)
            except DamageError as error:
                self.consistent = False
                self._report("DRB-LOG-007", one, error.what)
        if one.instant < self._start.redo_lwm:
            return
        if registry.is_page_operation(one.operation):
            self._see_page(one, one.operation)
        elif isinstance(one.operation, container.ContainerOperation):
            key = one.operation.segment, one.operation.container
            self.ranges.containers.setdefault(key, one.instant)
            if one.operation.kind == container.CREATE:
                self.ranges.created.add(key)
            elif one.operation.kind == container.REMOVE:
                self.ranges.removed.add(key)

    def _see_page(self, one: Record, operation: registry.PageOperation) -> None:
        key = operation.segment, operation.container, operation.page
        version = operation.version
        self.ranges.containers.setdefault(key[:2], one.instant)
        # R-DRB-4: the next record of the page must carry this version.
        after = version + self._raised(one, operation)
        known = self.ranges.pages.get(key)
        if known is None:
            recreated = isinstance(operation, page.InitPage)
            self.ranges.pages[key] = VersionRange(version, after, one.instant, recreated)
            return
        if known.last != version:
            message = f"page {key[2]} of container {key[1]} has version {known.last} in front of a record for {version}"
            self._report("DRB-LOG-011", one, message)
        self.ranges.pages[key] = known._replace(last=after)

    def _raised(self, one: Record, operation: registry.PageOperation) -> int:
        """By how much the record raises the version of its page."""
        try:
            if one.undo_instant is None:
                return raised_by(operation)
            return raised_by_undo(self.log.record(one.undo_instant).operation)
        except (DamageError, FormatError) as error:
            undone = "" if one.undo_instant is None else f"a CLR undoes {instant.show(one.undo_instant)}, but "
            self._report("DRB-LOG-006", one, undone + error.what)
            # The most common rise: the check goes on with the next record.
            return 1

    def _report(self, code: str, one: Record, message: str) -> None:
        path = self.log.path(instant.file_of(one.instant))
        self.findings.append(finding(code, message, file=path, at=one.instant))


def _check_end(log: DerbyLogFiles, start: Start, end: ScanEnd) -> list[DerbyFinding]:
    """The end of the log and everything after it."""
    findings = []
    path = log.path(instant.file_of(end.stopped_at))
    promised = max(start.redo_lwm, start.checkpoint_at)
    # The checkpoint counts records up to here as logged, and their pages may be written.
    if end.append <= promised and start.checkpoint is not None:
        message = f"the log ends in front of its last checkpoint {instant.show(promised)}: {end.reason}"
        findings.append(finding("DRB-LOG-008", message, file=path, at=end.stopped_at))
    if end.obstacle is not None:
        following = log.path(instant.file_of(end.stopped_at) + 1)
        findings.append(finding("DRB-LOG-004", end.obstacle, file=following))
    after = look_after_end(log, end)
    # One finding for the end, the worst that holds.
    if after.commits:
        message = (
            f"{end.reason}; after it {after.records} valid records, {after.commits} of them commits, "
            f"from {instant.show(after.first)} to {instant.show(after.last)}"
        )
        findings.append(finding("DRB-LOG-002", message, file=path, at=end.stopped_at))
    elif end.derby_fails:
        findings.append(finding("DRB-LOG-010", f"no end of the log: {end.reason}", file=path, at=end.stopped_at))
    elif end.fuzzy:
        message = f"the log ends in a torn write: {end.reason}"
        findings.append(finding("DRB-LOG-001", message, file=path, at=end.stopped_at))
    elif after.other_bytes:
        message = f"bytes stand after the end of the log ({after.records} valid records among them)"
        findings.append(finding("DRB-LOG-009", message, file=path, at=end.append))
    # An obstacle names its file already.
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
        message = f"{kind} {one.number} is not ended; {len(one.instants)} records"
        findings.append(finding("DRB-REC-001", message, at=one.first))
    for one in table.in_doubt():
        findings.append(finding("DRB-REC-002", f"transaction {one.number} is prepared, not ended", at=one.first))
    return findings
