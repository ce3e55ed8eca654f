"""Findings: what a check has to say, in all formats.

A finding has a stable code, a severity, a place, a message, a consequence and a remedy. Findings on Derby databases
have places of their own (instant, container, page), which those on JE environments do not have. Text, JSON, NDJSON and
CSV go through the ordinary encoders; JUnit, SARIF and the Prometheus text format are in ``findings_formats``.
"""

from __future__ import annotations

from typing import Final, Protocol

from jetool.output.shape import Field, Row, Shape, Style, to_text

SEVERITIES = ("error", "warning", "note")
# Formats that carry totals in front, so that findings are collected first; the renderers are in ``findings_formats``.
COLLECTED_FORMATS = ("junit", "sarif", "prometheus")


class FindingView(Protocol):
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
        Field("instant", "instant", "Derby: where in the log", optional=True),
        Field("container", "int", "Derby: number of the container", optional=True),
        Field("page", "int", "Derby: number of the page", optional=True),
    ),
)

_COLORS = {"error": "\x1b[31m", "warning": "\x1b[33m", "note": "\x1b[36m"}


_PLACE: Final = tuple(field for field in FINDING.fields if field.optional)
_ALWAYS: Final = Shape("finding", "", tuple(field for field in FINDING.fields if not field.optional))


def row(finding: FindingView) -> Row:
    """A finding as a row; a Derby place is there when the finding has one."""
    always = _ALWAYS.row([getattr(finding, name) for name in _ALWAYS.names()])
    place = [(field.name, field.kind, getattr(finding, field.name, None)) for field in _PLACE]
    # Left out, not null: JE's findings have no such places.
    return [*always, *(field for field in place if field[2] is not None)]


def byte_offset(finding: FindingView) -> int | None:
    """The offset in the damaged file, in bytes, or None. LSNs and instants both have it in their lower half."""
    at: int | None = finding.lsn if finding.lsn is not None else getattr(finding, "instant", None)
    return None if at is None else at & 0xFFFFFFFF


def place_words(row: Row, style: Style) -> list[str]:
    """Where a finding is, in words: file, place in the log, then what is named."""
    found = {name: to_text(kind, value, style) for name, kind, value in row if value is not None}
    # A dash is what a NULL LSN looks like.
    where = [found[name] for name in ("file", "lsn", "instant") if found.get(name, "-") != "-"]
    return where + [f"{name} {found[name]}" for name in ("db", "key", "container", "page") if name in found]


def text_line(rec: str, row: Row, style: Style) -> str:  # noqa: ARG001 - a TextLine
    """A finding as a paragraph: severity, code and place on the first line, then what it means and what to do."""
    found = {name: to_text(kind, value, style) for name, kind, value in row if value is not None}
    severity = found["severity"]
    shown = f"{_COLORS[severity]}{severity.upper()}\x1b[0m" if style.color else severity.upper()
    lines = [" ".join([shown, found["code"], *place_words(row, style)]), f"  {found['message']}"]
    lines += [f"  {name}: {found[name]}" for name in ("consequence", "remedy") if found[name]]
    return "\n".join(lines)
