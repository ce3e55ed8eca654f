"""What ``verify`` prints of a JE environment: its findings for the renderers, and the summary."""

from __future__ import annotations

from typing import Final

from engine.format.lsn import NULL_LSN
from engine.verify.report import ERROR, NOTE, WARNING, Finding, Report
from jetool.output.shape import Field, Row, Shape

CHECKED: Final = (
    Field("errors", "int", "findings that are damage"),
    Field("warnings", "int", "findings to look at"),
    Field("notes", "int", "findings that explain"),
    Field("files", "int", "files read"),
    Field("entries", "int", "good entries in them"),
    Field("bytes", "size_bytes", "bytes read"),
    Field("checked", "texts", "levels that were checked"),
    Field("not_checked", "texts", "what was not checked"),
)
_TREES: Final = (
    Field("databases", "int", "databases whose trees were walked over", optional=True),
    Field("nodes", "int", "tree nodes checked", optional=True),
    Field("records", "int", "records that the trees lead to", optional=True),
)
_SECONDARIES: Final = (Field("entries_of_secondaries", "int", "entries whose records were looked up", optional=True),)
_PAGES: Final = (
    Field("containers", "int", "Derby: containers checked", optional=True),
    Field("pages", "int", "Derby: pages checked", optional=True),
    Field("rows", "int", "Derby: rows checked", optional=True),
)
SUMMARY: Final = Shape("summary", "What was checked.", (*CHECKED, *_TREES, *_SECONDARIES, *_PAGES))
OF_LOG: Final = SUMMARY._replace(fields=CHECKED)
OF_SECONDARIES: Final = SUMMARY._replace(fields=_SECONDARIES)
OF_TREES: Final = SUMMARY._replace(fields=(*CHECKED, *_TREES))
OF_PAGES: Final = SUMMARY._replace(fields=(*CHECKED, *_PAGES))


class JeFindingView:
    """A finding as the renderers take it: None where there is no place."""

    def __init__(self, finding: Finding) -> None:
        self.code, self.severity, self.message = finding.code, finding.severity, finding.message
        self.consequence, self.remedy = finding.consequence, finding.remedy
        self.lsn = None if finding.lsn == NULL_LSN else finding.lsn
        self.file = finding.file or None
        self.db = finding.db
        self.key = finding.key
        # Set where several are checked.
        self.environment: str | None = None


def summary_row(report: Report, entries: int | None) -> Row:
    """The summary of a report.

    Arguments:
        entries: of secondaries that were checked; None: there was none to check.
    """
    counts = (report.count(ERROR), report.count(WARNING), report.count(NOTE))
    read = (report.files, report.entries, report.checked_bytes, report.checked, report.not_checked)
    row = OF_LOG.row((*counts, *read))
    if report.nodes is not None:
        row = OF_TREES.row((*counts, *read, report.databases, report.nodes, report.records))
    return row if entries is None else [*row, *OF_SECONDARIES.row((entries,))]
