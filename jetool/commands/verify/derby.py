"""``verify`` on a Derby database: prints the engine's findings in the formats of the command."""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.derby.database import DerbyDatabase
from engine.derby.log import DerbyLogFiles
from engine.derby.verify.check import MISSING_CONTAINERS, DerbyReport, verify
from engine.derby.verify.findings import ERROR, NOTE, WARNING, DerbyFinding, finding
from engine.errors import plural
from engine.storage.base import Storage
from engine.verify import repairs
from jetool.commands.verify.rows import CheckSummary, why_of
from jetool.frame import exits
from jetool.frame.options import Run

RULES: Final = (
    ("DRB-CTL-001", "log.ctrl cannot be used"),
    ("DRB-CTL-002", "log.ctrl is missing and the mirror is there"),
    ("DRB-CTL-003", "logmirror.ctrl is missing or cannot be used"),
    ("DRB-CTL-004", "neither control file can be used"),
    ("DRB-CTL-005", "the control files name different checkpoints"),
    ("DRB-CTL-006", "the database was run without syncing"),
    ("DRB-CTL-007", "the record that the control file names is no checkpoint"),
    ("DRB-LOG-001", "the log ends in a torn write"),
    ("DRB-LOG-002", "committed transactions lie after the end of the log"),
    ("DRB-LOG-003", "a log file that recovery needs is missing or no log file"),
    ("DRB-LOG-004", "the next log file keeps Derby from starting"),
    ("DRB-LOG-005", "a log file does not continue the log"),
    ("DRB-LOG-006", "a part of the log cannot be read"),
    ("DRB-LOG-007", "a record belongs to no transaction"),
    ("DRB-LOG-008", "the log ends in front of its last checkpoint"),
    ("DRB-LOG-009", "bytes stand after the end of the log"),
    ("DRB-LOG-010", "the log has no end that Derby understands"),
    ("DRB-LOG-011", "page versions in the log do not follow each other"),
    ("DRB-PAGE-001", "a page fails its checksum or its header is wrong"),
    ("DRB-PAGE-002", "the slot table of a page is wrong"),
    ("DRB-PAGE-003", "a row cannot be decoded"),
    ("DRB-PAGE-004", "a page is older than the log allows"),
    ("DRB-PAGE-005", "a page is newer than the log"),
    ("DRB-PAGE-006", "a page counts its deleted rows wrongly"),
    ("DRB-PAGE-007", "a page that the log makes again cannot be read"),
    ("DRB-PAGE-008", "a page in use is empty or missing"),
    ("DRB-CONT-001", "the header of a container is wrong"),
    ("DRB-CONT-002", "a container is referenced and its file is missing"),
    ("DRB-CONT-003", "a dropped container was not removed"),
    ("DRB-CONT-004", "the stub of a removed container is left"),
    ("DRB-CONT-005", "a container belongs to no table or index"),
    ("DRB-IDX-001", "the pages of an index do not hang together"),
    ("DRB-IDX-002", "an index and its table have other rows"),
    ("DRB-REC-001", "a transaction is not ended"),
    ("DRB-REC-002", "a transaction is prepared and not ended"),
    ("DRB-REC-003", "recovery stops"),
    ("DRB-REPAIR-001", "a repair was interrupted"),
    ("DRB-DB-001", "the database is open in another process"),
    ("DRB-DB-002", "the service properties keep Derby from starting the database"),
    ("DRB-DB-003", "an interrupted change of the service properties is taken back"),
)
_LOG_CHECKS: Final = ("service properties", "control files", "log", "tail", MISSING_CONTAINERS)
_PAGE_CHECKS: Final = ("containers", "pages", "page versions against the log")


class DerbyFindingView(NamedTuple):
    """A finding in the form for renderers."""

    code: str
    severity: str
    lsn: None
    file: str | None
    db: None
    key: None
    message: str
    consequence: str
    remedy: str
    instant: int | None
    container: int | None
    page: int | None


def verify_database(run: Run, storage: Storage, *, log_only: bool, strict: bool) -> int:
    """Check a Derby database and print the findings.

    Arguments:
        run: the run.
        storage: the database directory.
        log_only: do not check the pages of containers.
        strict: whether warnings count.

    Returns:
        The exit code.
    """
    database = DerbyDatabase(storage)
    files = len(DerbyLogFiles(database).numbers())
    report = verify(database, pages=not log_only, listener=run.listener)
    # Findings about interrupted repairs come first, because files between two states explain most other findings.
    report = report._replace(findings=(*_of_repairs(storage), *report.findings))
    code = _code(report, strict=strict)
    views = [shown(one) for one in report.findings]
    # A check that could not run is listed as not checked, never as passed.
    checked = [name for name in _LOG_CHECKS + (() if log_only else _PAGE_CHECKS) if name not in report.not_checked]
    read = f"no error in {plural(report.records, 'log record')} and {plural(report.pages, 'page')}"
    why = why_of(views, f"{read}; checked: {', '.join(checked)}")
    verdict = exits.verdict(code, why, partly=log_only or bool(report.not_checked))
    found = run.out.findings(RULES, [str(storage.root)], verdict)
    for view in views:
        found.add(view)
    counts = [sum(one.severity == severity for one in report.findings) for severity in (ERROR, WARNING, NOTE)]
    found.end(
        CheckSummary(
            verdict=verdict.word,
            why=verdict.why,
            errors=counts[0],
            warnings=counts[1],
            notes=counts[2],
            files=files,
            entries=report.records,
            bytes=report.log_bytes,
            checked=checked,
            not_checked=report.not_checked,
            containers=report.containers,
            pages=report.pages,
            rows=report.rows,
        )
    )
    return code


def _of_repairs(storage: Storage) -> list[DerbyFinding]:
    """Findings about interrupted repairs, which every check prints first."""
    return [finding("DRB-REPAIR-001", one.message, file=one.file) for one in repairs.check_repairs(storage)]


def _code(report: DerbyReport, *, strict: bool) -> int:
    severities = {one.severity for one in report.findings}
    if ERROR in severities:
        return exits.FINDINGS
    return exits.WARNINGS if WARNING in severities and strict else exits.DONE


def shown(one: DerbyFinding) -> DerbyFindingView:
    """A finding of the engine for the renderers."""
    return DerbyFindingView(
        one.code,
        one.severity,
        None,
        one.file,
        None,
        None,
        one.message,
        one.consequence,
        one.remedy,
        # 0 is not a valid instant: the finding has no place.
        one.instant or None,
        one.container,
        one.page,
    )
