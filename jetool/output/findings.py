"""Findings: what a check has to say, in all formats.

A finding has a stable code, a severity, a place, a message, a consequence and a remedy. Text, JSON, NDJSON and CSV go
through the ordinary encoders; JUnit, SARIF and the Prometheus text format are in ``findings_formats``.
"""

from __future__ import annotations

from typing import Protocol

from jetool.output.shape import Field, Shape
from jetool.output.values import Row, Style, to_text

SEVERITIES = ("error", "warning", "note")
# Formats that carry totals in front, so that findings are collected first; the renderers are in ``findings_formats``.
COLLECTED_FORMATS = ("junit", "sarif", "prometheus")


class Finding(Protocol):
    """What a renderer needs to know of a finding. ``engine.verify`` has the record.

    Attributes:
        code: stable, such as ``JE-LOG-001``.
        severity: one of ``SEVERITIES``.
        lsn: where, or None.
        file: the file that is damaged, or None.
        db: name of the database, or None.
        key: the key concerned, or None.
        message: what is wrong.
        consequence: what it means for the data.
        remedy: what to do next.
    """

    @property
    def code(self) -> str: ...  # noqa: D102 - see the class docstring, here and below
    @property
    def severity(self) -> str: ...  # noqa: D102
    @property
    def lsn(self) -> int | None: ...  # noqa: D102
    @property
    def file(self) -> str | None: ...  # noqa: D102
    @property
    def db(self) -> str | None: ...  # noqa: D102
    @property
    def key(self) -> bytes | None: ...  # noqa: D102
    @property
    def message(self) -> str: ...  # noqa: D102
    @property
    def consequence(self) -> str: ...  # noqa: D102
    @property
    def remedy(self) -> str: ...  # noqa: D102


FINDING = Shape(
    "finding",
    "One thing that a check found.",
    (
        Field("code", "text", "stable code of the kind of finding"),
        Field("severity", "text", "how bad it is", choices=SEVERITIES),
        Field("lsn", "lsn", "where in the log", null=True),
        Field("file", "text", "the file that is damaged", null=True),
        Field("db", "text", "name of the database concerned", null=True),
        Field("key", "key", "the key concerned", null=True),
        Field("message", "text", "what is wrong"),
        Field("consequence", "text", "what it means for the data"),
        Field("remedy", "text", "what to do next"),
    ),
)

_COLORS = {"error": "\x1b[31m", "warning": "\x1b[33m", "note": "\x1b[36m"}


def row(finding: Finding) -> Row:
    """A finding as a row."""
    return FINDING.row([getattr(finding, name) for name in FINDING.names()])


def text_line(rec: str, row: Row, style: Style) -> str:  # noqa: ARG001 - a TextLine
    """A finding as a paragraph: severity, code and place on the first line, then what it means and what to do."""
    found = {name: to_text(kind, value, style) for name, kind, value in row if value is not None}
    severity = found["severity"]
    shown = f"{_COLORS[severity]}{severity.upper()}\x1b[0m" if style.color else severity.upper()
    where = [found[name] for name in ("file", "lsn") if found.get(name, "-") != "-"]
    where += [f"{name} {found[name]}" for name in ("db", "key") if name in found]
    lines = [" ".join([shown, found["code"], *where]), f"  {found['message']}"]
    lines += [f"  {name}: {found[name]}" for name in ("consequence", "remedy") if found[name]]
    return "\n".join(lines)
