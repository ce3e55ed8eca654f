"""Findings of checks, in all formats.

A finding has a stable code, a severity, a place, a message, a consequence and a remedy. Findings about Derby databases
have additional places (instant, container, page). Text, JSON, NDJSON and CSV go through the ordinary encoders; JUnit,
SARIF and the Prometheus text format are in ``findings_formats``.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple, Protocol

from engine.fields import ABSENT, Absent, Choices, Instant, Int, Key, Like, Lsn, Row, Text, record
from jetool.output.shape import Style, to_text

SEVERITIES = ("error", "warning", "note")
# Formats with totals at the beginning, for which findings are collected first; ``findings_formats`` renders them.
COLLECTED_FORMATS = ("junit", "sarif", "prometheus")


class FindingView(Protocol):
    """The data of a finding for renderers. ``engine.verify`` has the record.

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


@record("finding")
class FindingRow(NamedTuple):
    """One finding of a check."""

    code: Annotated[Text, "stable code of the kind of finding"]
    severity: Annotated[Text, "how bad it is", Choices(SEVERITIES)]
    lsn: Annotated[Lsn | None, "where in the log"]
    file: Annotated[Text | None, "the file that is damaged"]
    db: Annotated[Text | None, "name of the database concerned"]
    key: Annotated[Key | None, "the key concerned"]
    message: Annotated[Text, "what is wrong"]
    consequence: Annotated[Text, "what it means for the data"]
    remedy: Annotated[Text, "what to do next"]
    instant: Annotated[Instant | Absent, "Derby: where in the log"] = ABSENT
    container: Annotated[Int | Absent, "Derby: number of the container"] = ABSENT
    page: Annotated[Int | Absent, "Derby: number of the page"] = ABSENT


@record("finding")
class FleetFindingRow(NamedTuple):
    """One finding of a check of several environments."""

    environment: Annotated[Text, "directory of the environment"]
    code: Annotated[Text, Like(FindingRow)]
    severity: Annotated[Text, Like(FindingRow)]
    lsn: Annotated[Lsn | None, Like(FindingRow)]
    file: Annotated[Text | None, Like(FindingRow)]
    db: Annotated[Text | None, Like(FindingRow)]
    key: Annotated[Key | None, Like(FindingRow)]
    message: Annotated[Text, Like(FindingRow)]
    consequence: Annotated[Text, Like(FindingRow)]
    remedy: Annotated[Text, Like(FindingRow)]


_COLORS = {"error": "\x1b[31m", "warning": "\x1b[33m", "note": "\x1b[36m"}


def finding_row(finding: FindingView) -> FindingRow:
    """The output record of a finding; Derby places are included if the finding has them."""
    return FindingRow(
        code=finding.code,
        severity=finding.severity,
        lsn=finding.lsn,
        file=finding.file,
        db=finding.db,
        key=finding.key,
        message=finding.message,
        consequence=finding.consequence,
        remedy=finding.remedy,
        instant=_derby(finding, "instant"),
        container=_derby(finding, "container"),
        page=_derby(finding, "page"),
    )


def fleet_finding_row(finding: FindingView) -> FleetFindingRow:
    """The output record of a finding that has the attribute ``environment``."""
    row = finding_row(finding)
    fields = {name: getattr(row, name) for name in FleetFindingRow._fields[1:]}
    env = _environment_of(finding)
    assert env is not None
    return FleetFindingRow(environment=env, **fields)


def path_of(finding: FindingView) -> str | None:
    """The path of the damaged file; where several environments are checked, it begins with the environment."""
    env = _environment_of(finding)
    return finding.file if env is None else _joined(env, finding.file)


def _environment_of(finding: FindingView) -> str | None:
    """The environment of a finding; None where only one is checked."""
    env: str | None = getattr(finding, "environment", None)
    return env


def _joined(env: str, file: str | None) -> str:
    # Files have the same names in every environment.
    return f"{env}/{file}" if file else env


def _derby(finding: FindingView, name: str) -> int | Absent:
    found: int | None = getattr(finding, name, None)
    # Leave the field out instead of printing null, because findings about JE environments have no Derby places.
    return ABSENT if found is None else found


def byte_offset(finding: FindingView) -> int | None:
    """The offset in the damaged file, in bytes, or None. LSNs and instants both hold the offset in their lower half."""
    at: int | None = finding.lsn if finding.lsn is not None else getattr(finding, "instant", None)
    return None if at is None else at & 0xFFFFFFFF


def place_words(row: Row, style: Style) -> list[str]:
    """The place of a finding in words: file, place in the log, then other names."""
    found = {name: to_text(kind, value, style) for name, kind, value in row if value is not None}
    if "environment" in found:
        found["file"] = _joined(found["environment"], found.get("file"))
    # A NULL LSN is printed as a dash.
    where = [found[name] for name in ("file", "lsn", "instant") if found.get(name, "-") != "-"]
    return where + [f"{name} {found[name]}" for name in ("db", "key", "container", "page") if name in found]


def text_line(rec: str, row: Row, style: Style) -> str:  # noqa: ARG001 - a TextLine
    """A finding as a paragraph: severity, code and place on the first line, then consequence and remedy."""
    found = {name: to_text(kind, value, style) for name, kind, value in row if value is not None}
    severity = found["severity"]
    shown = f"{_COLORS[severity]}{severity.upper()}\x1b[0m" if style.color else severity.upper()
    lines = [" ".join([shown, found["code"], *place_words(row, style)]), f"  {found['message']}"]
    lines += [f"  {name}: {found[name]}" for name in ("consequence", "remedy") if found[name]]
    return "\n".join(lines)
