"""``jetool verify`` on several environments: a verdict for each, and one summary.

Each environment is checked as if it were the only one. Its findings are collected, because the report about it begins
with the verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, NamedTuple

from engine.errors import JetoolError, NotFoundError, plural
from engine.fields import ABSENT, Absent, Choices, Int, Like, Row, SizeBytes, Text, record
from engine.verdict import DAMAGED, NONE_SEEN, SOUND, UNJUDGED, VERDICTS
from engine.verify.report import ERROR, Rule, finding
from jetool.commands.verify.rows import CheckSummary, JeFindingView
from jetool.frame import exits
from jetool.frame.options import Run
from jetool.output.base import FindingStream
from jetool.output.findings import COLLECTED_FORMATS, FindingRow, FindingView, finding_row, text_line
from jetool.output.render import Renderer
from jetool.output.shape import Style, fields_of, to_text

SKIPPED: Final = "skipped"
_JUDGED: Final = (SOUND, NONE_SEEN, DAMAGED, UNJUDGED)
_MEANINGS: Final = (
    "; ".join([f"{word}: {VERDICTS[word]}" for word in _JUDGED]) + "; skipped: no environment, no database"
)
NOT_VERIFIED: Final = Rule(
    "JE-FLEET-001",
    ERROR,
    "environment that could not be checked",
    "nothing is known of it",
    "remove the cause that the message gives, then verify the environment with jetool verify",
)
_RANKED: Final = (exits.INCOMPLETE, exits.FINDINGS, exits.WARNINGS, exits.DONE)


@record("environment")
class VerifiedEnvironment(NamedTuple):
    """The check of one environment."""

    environment: Annotated[Text, "the directory"]
    verdict: Annotated[
        Text,
        _MEANINGS,
        Choices((*_JUDGED, SKIPPED)),
    ]
    why: Annotated[Text, "the reason for the verdict"]
    exit_code: Annotated[Int | None, "the exit code for this directory alone; null if it was skipped"]
    errors: Annotated[Int, Like(CheckSummary)]
    warnings: Annotated[Int, Like(CheckSummary)]
    notes: Annotated[Int, Like(CheckSummary)]
    files: Annotated[Int, Like(CheckSummary)]
    entries: Annotated[Int, Like(CheckSummary)]
    bytes: Annotated[SizeBytes, Like(CheckSummary)]
    checked: Annotated[Sequence[Text], Like(CheckSummary)]
    not_checked: Annotated[Sequence[Text], Like(CheckSummary)]
    scope: Annotated[Text | Absent, Like(CheckSummary)]
    findings: Annotated[Sequence[FindingRow], "its findings"]


@record("summary")
class SeveralSummary(NamedTuple):
    """The end of a check of several directories."""

    environments: Annotated[Int, "environments"]
    clean: Annotated[Int, "environments without damage, as far as they were checked"]
    damaged: Annotated[Int, "environments with damage"]
    unjudged: Annotated[Int, "environments that cannot be judged"]
    skipped: Annotated[Int, "directories and files that are no environment"]
    errors: Annotated[Int, Like(CheckSummary)]
    warnings: Annotated[Int, Like(CheckSummary)]
    notes: Annotated[Int, Like(CheckSummary)]


class _Checked(NamedTuple):
    """One directory: its row, and its findings for formats with a list of rules."""

    row: VerifiedEnvironment
    views: Sequence[FindingView]
    rules: Sequence[tuple[str, str]] = ()


class _PlacedView:
    """A finding with its environment."""

    def __init__(self, env: str, found: FindingRow) -> None:
        self.code, self.severity, self.message = found.code, found.severity, found.message
        self.consequence, self.remedy, self.db, self.key = found.consequence, found.remedy, found.db, found.key
        self.lsn, self.file = found.lsn, found.file
        self.environment = env
        for name in ("instant", "container", "page"):
            setattr(self, name, getattr(found, name) if isinstance(getattr(found, name), int) else None)


class _Collector(Renderer):
    """Collects the findings of one environment instead of printing them."""

    def __init__(self, run: Run) -> None:
        self.format, self.style, self.selected = run.out.format, run.out.style, None
        self.rows: list[FindingRow] = []
        self.rules: Sequence[tuple[str, str]] = ()
        self.summary: Any = None

    def findings(self, rules: Sequence[tuple[str, str]], *_: object, **__: object) -> FindingStream:
        """The collector itself."""
        self.rules = rules
        return self

    def add(self, found: FindingView) -> None:
        """Collect a finding."""
        self.rows.append(finding_row(found))

    def end(self, summary: Any, incomplete: Collection[str] = ()) -> None:  # noqa: ARG002 - the exit code says it
        """Keep the summary."""
        self.summary = summary


def verify_several(run: Run, places: Sequence[str], check: Callable[[Run, str], int]) -> int:
    """Check several directories, and print the verdict of each and a summary.

    Arguments:
        places: directories. A file, or a directory that is no environment, is skipped: a glob matches these too.
        check: checks one environment and prints findings; returns its exit code.

    Returns:
        The worst of the exit codes.

    Raises:
        NotFoundError: none of the directories is an environment.
    """
    places = list(dict.fromkeys(places))
    if run.out.format in COLLECTED_FORMATS:
        return _print_collected(run, [_checked(run, place, check) for place in places])
    codes: list[int] = []
    with run.out.stream(VerifiedEnvironment, line=verdict_text) as stream:
        # Keep skipped directories until an environment is found: without one the run is an error.
        waiting: list[VerifiedEnvironment] = []
        rows: list[VerifiedEnvironment] = []
        for place in places:
            found = _checked(run, place, check).row
            rows.append(found)
            waiting.append(found)
            if found.exit_code is not None:
                codes.append(found.exit_code)
                for row in waiting:
                    stream.row(row)
                stream.flush()
                waiting = []
        _require_one(rows)
        for row in waiting:
            stream.row(row)
        stream.end(_summary(rows))
    return _worst(codes)


def _print_collected(run: Run, found: Sequence[_Checked]) -> int:
    """Print findings in a format that begins with totals."""
    rows = [one.row for one in found]
    _require_one(rows)
    judged = [one for one in found if one.row.exit_code is not None]
    rules = dict(rule for one in judged for rule in one.rules)
    stream = run.out.findings(list(rules.items()), [one.row.environment for one in judged])
    for view in (view for one in judged for view in one.views):
        stream.add(view)
    stream.end(_summary(rows), [row.environment for row in rows if row.verdict == UNJUDGED])
    return _worst([row.exit_code for row in rows if row.exit_code is not None])


def _checked(run: Run, place: str, check: Callable[[Run, str], int]) -> _Checked:
    out = _Collector(run)
    try:
        code = check(replace(run, out=out), place)
    except JetoolError as error:
        return _failed(place, error)
    summary: CheckSummary = out.summary
    row = VerifiedEnvironment(
        environment=place,
        verdict=summary.verdict,
        why=summary.why,
        exit_code=code,
        errors=summary.errors,
        warnings=summary.warnings,
        notes=summary.notes,
        files=summary.files,
        entries=summary.entries,
        bytes=summary.bytes,
        checked=summary.checked,
        not_checked=summary.not_checked,
        scope=summary.scope,
        findings=out.rows,
    )
    return _Checked(row, [_PlacedView(place, one) for one in out.rows], out.rules)


def _failed(place: str, error: JetoolError) -> _Checked:
    """An environment that could not be checked, or a place of a glob that is no environment."""
    from jetool.frame.defaults.environment_below import holds_none

    skipped = holds_none(place)
    view = JeFindingView(finding(NOT_VERIFIED, str(error)))
    view.environment = place
    row = VerifiedEnvironment(
        environment=place,
        verdict=SKIPPED if skipped else UNJUDGED,
        why=error.what if error.found is None else f"{error.what}: {error.found}",
        exit_code=None if skipped else error.exit_code,
        errors=0,
        warnings=0,
        notes=0,
        files=0,
        entries=0,
        bytes=0,
        checked=(),
        not_checked=(),
        scope=ABSENT,
        findings=(),
    )
    return _Checked(row, [view], [(NOT_VERIFIED.code, NOT_VERIFIED.title)])


def _require_one(rows: Sequence[VerifiedEnvironment]) -> None:
    """NotFoundError if every place was skipped."""
    if all(row.exit_code is None for row in rows):
        raise NotFoundError(
            "no environment among the directories",
            expected="a JE environment or a Derby database",
            found=plural(len(rows), "other directory or file", "other directories or files"),
            hint="check the paths; jetool doctor DIR also looks below a directory",
        )


def _summary(rows: Sequence[VerifiedEnvironment]) -> SeveralSummary:
    counts = {word: sum(row.verdict == word for row in rows) for word in (*_JUDGED, SKIPPED)}
    return SeveralSummary(
        environments=len(rows) - counts[SKIPPED],
        clean=counts[SOUND] + counts[NONE_SEEN],
        damaged=counts[DAMAGED],
        unjudged=counts[UNJUDGED],
        skipped=counts[SKIPPED],
        errors=sum(row.errors for row in rows),
        warnings=sum(row.warnings for row in rows),
        notes=sum(row.notes for row in rows),
    )


def _worst(codes: Sequence[int]) -> int:
    """The worst code; a code that ends a run without a result stands if it is the only one."""
    if len(set(codes)) == 1:
        return codes[0]
    return exits.worst(code if code in _RANKED else exits.INCOMPLETE for code in codes)


def verdict_text(rec: str, row: Row, style: Style) -> str:  # noqa: ARG001 - a TextLine
    """The verdict of an environment on one line, and its findings after it, indented."""
    values = {name: (kind, value) for name, kind, value in row}
    shown = {name: to_text(*values[name], style) for name in ("environment", "verdict", "why")}
    lines = [f"{shown['environment']}: {shown['verdict']}: {shown['why']}"]
    for one in values["findings"][1]:
        lines += [f"  {line}" for line in text_line("finding", fields_of(one), style).splitlines()]
    return "\n".join(lines)
