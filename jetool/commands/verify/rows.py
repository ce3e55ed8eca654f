"""Output records of ``verify`` for a JE environment: findings in the form for renderers, and the summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from engine.fields import ABSENT, Absent, Int, SizeBytes, Text, record
from engine.format.lsn import NULL_LSN
from engine.verify.report import ERROR, NOTE, WARNING, Finding, Report


@record("summary")
class CheckSummary(NamedTuple):
    """What was checked."""

    errors: Annotated[Int, "findings that are damage"]
    warnings: Annotated[Int, "findings to examine"]
    notes: Annotated[Int, "findings that explain"]
    files: Annotated[Int, "files read"]
    entries: Annotated[Int, "good entries in them"]
    bytes: Annotated[SizeBytes, "bytes read"]
    checked: Annotated[Sequence[Text], "levels that were checked"]
    not_checked: Annotated[Sequence[Text], "what was not checked"]
    databases: Annotated[Int | Absent, "databases whose trees were walked over"] = ABSENT
    nodes: Annotated[Int | Absent, "tree nodes checked"] = ABSENT
    records: Annotated[Int | Absent, "records that the trees lead to"] = ABSENT
    entries_of_secondaries: Annotated[Int | Absent, "entries whose records were looked up"] = ABSENT
    containers: Annotated[Int | Absent, "Derby: containers checked"] = ABSENT
    pages: Annotated[Int | Absent, "Derby: pages checked"] = ABSENT
    rows: Annotated[Int | Absent, "Derby: rows checked"] = ABSENT


class JeFindingView:
    """A finding in the form for renderers; ``lsn`` and ``file`` are None if the finding has no place."""

    def __init__(self, finding: Finding) -> None:
        self.code, self.severity, self.message = finding.code, finding.severity, finding.message
        self.consequence, self.remedy = finding.consequence, finding.remedy
        self.lsn = None if finding.lsn == NULL_LSN else finding.lsn
        self.file = finding.file or None
        self.db = finding.db
        self.key = finding.key
        # Set if several environments are checked.
        self.environment: str | None = None


def check_summary(report: Report, entries: int | None) -> CheckSummary:
    """The summary of a report.

    Arguments:
        entries: number of checked secondary entries; None without secondaries.
    """
    return CheckSummary(
        errors=report.count(ERROR),
        warnings=report.count(WARNING),
        notes=report.count(NOTE),
        files=report.files,
        entries=report.entries,
        bytes=report.checked_bytes,
        checked=report.checked,
        not_checked=report.not_checked,
        databases=report.databases if report.databases is not None else ABSENT,
        nodes=report.nodes if report.nodes is not None else ABSENT,
        records=report.records if report.records is not None else ABSENT,
        entries_of_secondaries=entries if entries is not None else ABSENT,
    )
