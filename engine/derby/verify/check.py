"""Checks of a database that collect findings; nothing is changed.

What is checked, in this order:

1. Service properties, and control files: both copies, and whether the record that they name is a checkpoint.
2. The log, from the first existing file, then from the undo low water mark: group checksums, chaining, transaction
   bookkeeping, and the bytes after the end (``log_checks``).
3. Containers and pages: headers, checksums, slot tables, rows, and page versions against the log (``page_checks``).
4. The pages of each index compared with each other, and indexes compared with their tables (``agreement``). Tables and
   indexes that recovery changes are compared in their state after recovery (``recovered``). Skipped while another
   process has the database open.
5. The containers named by the log and by the catalogue after recovery, compared with the files (``presence``). A file
that neither log nor catalogue names is not in use, so nothing in it counts as damage.

Page versions against the log (R-DRB-34): for every page the records from the redo low water mark on have versions v,
v+1, ... w. The page on disk must have a version from v to w. Below v an earlier record is missing, and recovery would
stop. Above w the page was written after records that the log no longer has: write-ahead logging makes that impossible
unless the log lost its end.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.derby.database import CONTROL, LOCK_FILE, MIRROR, Controls, DerbyDatabase
from engine.derby.format import container, control, instant
from engine.derby.format.container import ContainerKey
from engine.derby.log import DerbyLogFiles
from engine.derby.presence import (
    POSSIBLE,
    UNREADABLE,
    MissingContainer,
    Presence,
    containers_present,
    misnamed_clause,
    unused_containers,
)
from engine.derby.service_properties import OLD_PROPERTIES, PROPERTIES
from engine.derby.verify.agreement import Agreement
from engine.derby.verify.findings import ERROR, WARNING, DerbyFinding, finding
from engine.derby.verify.log_checks import LogCheck, LogFacts, check_log
from engine.derby.verify.page_checks import PageCheck, check_pages
from engine.derby.verify.recovered import RecoveredCheck, check_recovered
from engine.errors import plural
from engine.events import SILENT, Listener
from engine.storage.posix_locks import holder_in_words

# Name of the check of containers in summaries.
MISSING_CONTAINERS: Final = "missing containers"


class DerbyReport(NamedTuple):
    """The result of a check.

    Attributes:
        findings: everything found, in the order of the checks.
        records: log records checked.
        log_bytes: bytes of log checked.
        containers: container files checked.
        pages: pages checked.
        rows: rows checked.
        not_checked: skipped checks, as clauses for the summary.
        scope: the only part that was checked; empty: all of the database.
        files: log files in that part; None: all.
    """

    findings: tuple[DerbyFinding, ...]
    records: int
    log_bytes: int
    containers: int
    pages: int
    rows: int
    not_checked: tuple[str, ...]
    scope: str = ""
    files: int | None = None


def verify(database: DerbyDatabase, *, pages: bool = True, listener: Listener = SILENT) -> DerbyReport:
    """Check a database.

    Arguments:
        database: the database; it is only read.
        pages: whether the pages of containers are checked too. Missing containers are found in either case.
        listener: receives progress of the steps ``log`` (bytes) and ``pages`` (containers).

    Raises: UnsupportedError when the database is encrypted or of an unknown release.
    """
    database.require_clear()
    controls = database.controls()
    database.require_version(controls)
    findings = [*check_properties(database), *check_controls(controls)]
    # Checks continue: on a running database findings may be transient.
    holder = database.lock_holder()
    if holder is not None:
        findings.append(finding("DRB-DB-001", f"{holder_in_words(holder)} has the database open", file=LOCK_FILE))
    log = DerbyLogFiles(database)
    checked = check_log(log, controls, listener)
    findings += checked.findings
    facts = checked.facts
    found = PageCheck([], 0, 0, 0)
    presence: Presence | None = None
    agreement: Agreement | None = None
    if facts is not None:
        presence = containers_present(log, facts.start, facts.table, facts.notes)
        if pages and facts.complete and holder is None:
            agreement = Agreement(_changing(facts), presence.base_columns)
    unused: set[ContainerKey] = set()
    if pages:
        catalogue, unused = _by_catalogue(database, facts, presence)
        found = check_pages(
            database, facts.versions if facts is not None else None, listener, agreement, unused, catalogue
        )
        findings += found.findings
    if presence is not None:
        findings += _missing(presence.lost)
        findings += _misnamed(database, presence)
    not_compared: str | None = None
    uncompared = agreement.uncompared if agreement is not None else 0
    if agreement is not None and facts is not None and presence is not None and (changing := _changing(facts)):
        after = check_recovered(database, changing, found.damaged, unused, presence.base_columns)
        uncompared += after.uncompared
        findings += _new_findings(after, findings)
        not_compared = after.problem
    return DerbyReport(
        findings=tuple(findings),
        records=checked.records,
        log_bytes=checked.log_bytes,
        containers=found.containers,
        pages=found.pages,
        rows=found.rows,
        not_checked=_not_checked(
            checked, presence, agreement, pages=pages, not_compared=not_compared, uncompared=uncompared
        ),
    )


def check_properties(database: DerbyDatabase) -> list[DerbyFinding]:
    """Findings on the service properties that need no other file."""
    path = database.service.path or PROPERTIES
    findings = []
    if database.service.restored:
        message = f"{OLD_PROPERTIES} counts: a change of {PROPERTIES} was interrupted"
        findings.append(finding("DRB-DB-003", message, file=path))
    problem = database.start_problem()
    if problem is not None:
        findings.append(finding("DRB-DB-002", problem, file=path))
    return findings


def check_controls(controls: Controls) -> list[DerbyFinding]:
    """Findings on the two control files."""
    primary, mirror = controls.primary, controls.mirror
    findings = []
    if primary.control is None and mirror.control is None:
        message = f"both control files are unusable: {primary.problem or 'absent'}; {mirror.problem or 'absent'}"
        return [finding("DRB-CTL-004", message, file=CONTROL)]
    if not primary.present:
        findings.append(finding("DRB-CTL-002", "log.ctrl is missing, the mirror is there", file=CONTROL))
    elif primary.control is None:
        findings.append(finding("DRB-CTL-001", f"log.ctrl cannot be used: {primary.problem}", file=CONTROL))
    if mirror.control is None:
        message = f"logmirror.ctrl cannot be used: {mirror.problem or 'it is missing'}"
        findings.append(finding("DRB-CTL-003", message, file=MIRROR))
    if primary.control is not None and mirror.control is not None and primary.control != mirror.control:
        message = (
            f"the control files name different checkpoints: {instant.show(primary.control.checkpoint)} "
            f"and {instant.show(mirror.control.checkpoint)}"
        )
        findings.append(finding("DRB-CTL-005", message, file=MIRROR))
    if controls.chosen is not None and controls.chosen.flags & control.FLAG_NO_SYNC:
        findings.append(finding("DRB-CTL-006", "the database was run without syncing at least once", file=CONTROL))
    return findings


def _by_catalogue(
    database: DerbyDatabase, facts: LogFacts | None, presence: Presence | None
) -> tuple[set[int], set[ContainerKey]]:
    """The containers that must have pages, and the files not in use; empty if the log is too incomplete."""
    # A log that ends early does not contain all changes of the catalogue.
    if facts is None or not facts.complete or presence is None or presence.catalogue is None:
        return set(), set()
    # Redo creates the pages of containers created in the log.
    new = {key.container for key in facts.notes.created}
    return presence.catalogue - new, unused_containers(database, presence.catalogue, facts.notes)


def _new_findings(after: RecoveredCheck, findings: list[DerbyFinding]) -> list[DerbyFinding]:
    """Findings from recovery in memory."""
    known = {(one.code, one.container) for one in findings}
    more = [one for one in after.findings if (one.code, one.container) not in known]
    # If damage was found before, it is the reason why recovery stops.
    if after.stop is not None and not any(one.severity == ERROR for one in (*findings, *more)):
        more.append(after.stop)
    return more


def _missing(missing: tuple[MissingContainer, ...]) -> list[DerbyFinding]:
    return [
        finding(
            "DRB-CONT-002",
            one.why,
            file=container.path_of(one.key),
            at=one.at,
            container=one.key.container,
            severity=WARNING if one.loss == POSSIBLE else None,
        )
        for one in missing
        # Unreadable containers are left out, since their damaged pages are reported one by one.
        if one.loss != UNREADABLE
    ]


def _misnamed(database: DerbyDatabase, presence: Presence) -> list[DerbyFinding]:
    path = database.service.path
    return [
        finding("DRB-DB-002", misnamed_clause(names), file=path, severity=severity)
        for names, severity in ((presence.misnamed, None), (presence.misnamed_later, WARNING))
        if names
    ]


def _changing(facts: LogFacts) -> set[ContainerKey]:
    """Containers that recovery would change by redo, and by undo of changes already on disk."""
    opened = {one.number for one in (*facts.table.losers(), *facts.table.in_doubt())}
    return {*facts.notes.named, *(key for key, number in facts.notes.before if number in opened)}


def _not_checked(
    checked: LogCheck,
    presence: Presence | None,
    agreement: Agreement | None,
    *,
    pages: bool,
    not_compared: str | None,
    uncompared: int,
) -> tuple[str, ...]:
    left_out = ["order of keys in indexes"]
    if agreement is None:
        left_out.append("rows of tables against their indexes")
    elif not_compared is not None:
        left_out.append(f"rows against indexes in tables that recovery changes ({not_compared})")
    if uncompared:
        left_out.append(f"values of {plural(uncompared, 'index column')} (decimals, floats, collated or long values)")
    if presence is None:
        left_out.append(MISSING_CONTAINERS)
    if presence is None or presence.catalogue is None:
        left_out.append("tables and indexes of the catalogue against their files")
    if not pages:
        left_out.append("pages of containers")
    elif checked.facts is None or not checked.facts.complete:
        left_out.append("page versions against the log")
    return tuple(left_out)
