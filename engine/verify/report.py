"""Findings: problems with stable codes, and what to do about them.

A check collects findings and does not stop at the first one. ``severity`` decides the exit code of the command line: an
error is damage (1), a warning is something that an operator should examine (8 with ``--strict``), a note is only
information.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.format.lsn import NULL_LSN

ERROR: Final = "error"
WARNING: Final = "warning"
NOTE: Final = "note"


class Rule(NamedTuple):
    """One kind of finding.

    Attributes:
        code: stable; scripts match on it.
        severity: error, warning or note.
        title: what is wrong, in a few words.
        consequence: what it means for the data.
        remedy: the next step.
    """

    code: str
    severity: str
    title: str
    consequence: str
    remedy: str


class Finding(NamedTuple):
    """One place where a rule is broken.

    Attributes:
        lsn: NULL_LSN when the finding is about a whole file or directory.
        file: path relative to the environment; "" for the directory.
        db, key: database name and stored key, for findings about trees and records; otherwise None.
        message: details with expected and actual values.
    """

    code: str
    severity: str
    lsn: int
    file: str
    db: str | None
    key: bytes | None
    message: str
    consequence: str
    remedy: str


class Report(NamedTuple):
    """The result of a check.

    Attributes:
        findings: in the order of the log.
        files, entries, checked_bytes: amount that was read.
        checked, not_checked: names of the levels that ran, and of the levels that did not.
        databases, nodes, records: amount that was walked in the trees; None if the trees were not checked.
        scope: the only part of the environment that was checked, such as ``files 0x1..0x3``; "" for all of it.
    """

    findings: tuple[Finding, ...]
    files: int
    entries: int
    checked_bytes: int
    checked: tuple[str, ...]
    not_checked: tuple[str, ...]
    databases: int | None = None
    nodes: int | None = None
    records: int | None = None
    scope: str = ""

    def count(self, severity: str) -> int:
        """Findings of one severity."""
        return sum(finding.severity == severity for finding in self.findings)


def finding(
    rule: Rule, message: str, *, lsn: int = NULL_LSN, file: str = "", db: str | None = None, key: bytes | None = None
) -> Finding:
    """A finding of a rule.

    Arguments:
        rule: which one.
        message: details of this occurrence.
        lsn, file: where.
        db, key: the database and the record concerned.
    """
    text = f"{rule.title}: {message}"
    return Finding(
        code=rule.code,
        severity=rule.severity,
        lsn=lsn,
        file=file,
        db=db,
        key=key,
        message=text,
        consequence=rule.consequence,
        remedy=rule.remedy,
    )
