"""Output records of ``verify`` for a JE environment: findings in the form for renderers, and the summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple

from engine.errors import plural
from engine.fields import ABSENT, Absent, Int, Like, SizeBytes, Text, record
from engine.format.lsn import NULL_LSN
from engine.verdict import CheckVerdict
from engine.verify.report import ERROR, NOTE, WARNING, Finding, Report
from jetool.output.findings import FindingView
from jetool.output.shape import lsn_text
from jetool.output.verdicts import VerdictFields


@record("summary")
class CheckSummary(NamedTuple):
    """What was checked."""

    verdict: Annotated[Text, Like(VerdictFields)]
    why: Annotated[Text, Like(VerdictFields)]
    errors: Annotated[Int, "findings that are damage"]
    warnings: Annotated[Int, "findings to examine"]
    notes: Annotated[Int, "findings that explain"]
    files: Annotated[Int, "files read"]
    entries: Annotated[Int, "good entries in them"]
    bytes: Annotated[SizeBytes, "bytes read"]
    checked: Annotated[Sequence[Text], "levels that were checked"]
    not_checked: Annotated[Sequence[Text], "what was not checked"]
    scope: Annotated[Text | Absent, "the only part that was checked; without it, all of the environment"] = ABSENT
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


def why_of(findings: Iterable[FindingView], checked: str) -> str:
    """What the verdict of a check rests on: the first error and how many there are, or what was checked.

    Arguments:
        checked: what was checked.
    """
    counts: Counter[str] = Counter()
    first = None
    for one in findings:
        counts[one.severity] += 1
        if first is None and one.severity == ERROR:
            first = one
    warnings = plural(counts[WARNING], "warning")
    if first is None:
        return checked + (f"; {warnings}" if counts[WARNING] else "")
    # Messages begin with the title of their rule.
    title = first.message.partition(":")[0]
    at = lsn_text(first.lsn) if first.lsn is not None else None
    named = title + (f" in {first.file}" if first.file else "") + (f" at {at}" if at else "") + f" ({first.code})"
    more = counts[ERROR] - 1
    return named + (f" and {plural(more, 'more error')}" if more else "") + (f"; {warnings}" if counts[WARNING] else "")


def words_of(report: Report) -> tuple[str, ...]:
    """The levels that were checked, each with the part that was checked; the end of the log is no part of a part."""
    part = f" of {report.scope}" if report.scope else ""
    return tuple(level if level == "tail" else level + part for level in report.checked)


def check_summary(report: Report, entries: int | None, verdict: CheckVerdict) -> CheckSummary:
    """The summary of a report.

    Arguments:
        entries: number of checked secondary entries; None without secondaries.
    """
    return CheckSummary(
        verdict=verdict.word,
        why=verdict.why,
        errors=report.count(ERROR),
        warnings=report.count(WARNING),
        notes=report.count(NOTE),
        files=report.files,
        entries=report.entries,
        bytes=report.checked_bytes,
        checked=words_of(report),
        not_checked=report.not_checked,
        scope=report.scope or ABSENT,
        databases=report.databases if report.databases is not None else ABSENT,
        nodes=report.nodes if report.nodes is not None else ABSENT,
        records=report.records if report.records is not None else ABSENT,
        entries_of_secondaries=entries if entries is not None else ABSENT,
    )
