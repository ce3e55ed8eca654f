"""``verify`` on a Derby database: prints the engine's findings in the formats of the command."""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.derby.database import DerbyDatabase
from engine.derby.log import DerbyLogFiles
from engine.derby.verify.check import MISSING_CONTAINERS, DerbyReport, verify
from engine.derby.verify.findings import CODES, ERROR, NOTE, WARNING, DerbyFinding, finding
from engine.errors import plural
from engine.fields import ABSENT
from engine.storage.base import Storage
from engine.verify import repairs
from jetool.commands.verify.rows import CheckSummary, why_of
from jetool.frame import exits
from jetool.frame.options import Run

RULES: Final = tuple((code, one.title) for code, one in CODES.items())
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
    report = verify(DerbyDatabase(storage), pages=not log_only, listener=run.listener)
    # A check that could not run is listed as not checked, never as passed.
    checked = [name for name in _LOG_CHECKS + (() if log_only else _PAGE_CHECKS) if name not in report.not_checked]
    return _print(run, storage, report, checked, partly=log_only or bool(report.not_checked), strict=strict)


def verify_part(run: Run, storage: Storage, first: int, last: int | None, *, strict: bool) -> int:
    """Check the log files from ``first`` to ``last`` (None: the newest), and print the findings."""
    from engine.derby.verify.part import verify_log_files

    report = verify_log_files(DerbyDatabase(storage), first, last, listener=run.listener)
    return _print(run, storage, report, ["control files", "log"], partly=True, strict=strict)


def _print(run: Run, storage: Storage, report: DerbyReport, checked: list[str], *, partly: bool, strict: bool) -> int:
    files = len(DerbyLogFiles(DerbyDatabase(storage)).numbers()) if report.files is None else report.files
    # Findings about interrupted repairs come first, because files between two states explain most other findings.
    report = report._replace(findings=(*_of_repairs(storage), *report.findings))
    code = _code(report, strict=strict)
    views = [shown(one) for one in report.findings]
    pages = "" if report.scope else f" and {plural(report.pages, 'page')}"
    read = f"no error in {plural(report.records, 'log record')}{pages}"
    part = f" of {report.scope}" if report.scope else ""
    why = why_of(views, f"{read}{part}; checked: {', '.join(checked)}")
    verdict = exits.verdict(code, why, partly=partly)
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
            scope=report.scope or ABSENT,
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
