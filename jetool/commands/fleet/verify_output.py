"""Printing the findings of ``fleet verify``; each names its environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from engine.fields import Int, Like, SizeBytes, Text, record
from engine.verify import log_rules, record_rules, tree_rules
from engine.verify.report import ERROR, NOTE, WARNING, finding
from jetool.commands.verify.rows import CheckSummary, JeFindingView
from jetool.commands.verify.several import NOT_VERIFIED
from jetool.frame import exits
from jetool.frame.options import Run

if TYPE_CHECKING:
    from engine.pipeline.fleet.verify_tasks import EnvironmentVerdict

_RULES: Final = (*log_rules.RULES, *tree_rules.RULES, *record_rules.RULES, NOT_VERIFIED)


@record("summary")
class FleetCheckSummary(NamedTuple):
    """What was checked."""

    environments: Annotated[Int, "environments checked"]
    with_errors: Annotated[Int, "those with damage"]
    not_checked_environments: Annotated[Int, "those that could not be checked"]
    errors: Annotated[Int, Like(CheckSummary)]
    warnings: Annotated[Int, Like(CheckSummary)]
    notes: Annotated[Int, Like(CheckSummary)]
    files: Annotated[Int, Like(CheckSummary)]
    entries: Annotated[Int, Like(CheckSummary)]
    bytes: Annotated[SizeBytes, Like(CheckSummary)]
    checked: Annotated[Sequence[Text], Like(CheckSummary)]
    not_checked: Annotated[Sequence[Text], Like(CheckSummary)]


def print_findings(run: Run, found: Sequence[EnvironmentVerdict], *, strict: bool) -> int:
    """Print findings and the summary; returns the exit code."""
    titles = {rule.code: rule.title for rule in _RULES}
    for each in (each for one in found if one.report is not None for each in one.report.findings):
        # Formats with a list of rules need a rule for every finding.
        titles.setdefault(each.code, each.message.partition(":")[0])
    stream = run.out.findings(list(titles.items()), [one.env for one in found], of_fleet=True)
    for one in found:
        if one.report is None:
            shown = JeFindingView(finding(NOT_VERIFIED, str(one.error)))
            shown.environment = one.env
            stream.add(shown)
            continue
        for each in one.report.findings:
            shown = JeFindingView(each)
            shown.environment = one.env
            stream.add(shown)
    reports = [one.report for one in found if one.report is not None]
    failed = len(found) - len(reports)
    errors, warnings, notes = (sum(report.count(level) for report in reports) for level in (ERROR, WARNING, NOTE))
    checked = reports[0].checked if reports else ()
    missed = dict.fromkeys(level for report in reports for level in report.not_checked)
    stream.end(
        FleetCheckSummary(
            environments=len(reports),
            with_errors=sum(bool(report.count(ERROR)) for report in reports),
            not_checked_environments=failed,
            errors=errors + failed,
            warnings=warnings,
            notes=notes,
            files=sum(report.files for report in reports),
            entries=sum(report.entries for report in reports),
            bytes=sum(report.checked_bytes for report in reports),
            checked=checked,
            not_checked=tuple(missed),
        ),
        [one.env for one in found if one.report is None],
    )
    codes = [exits.DONE]
    codes += [exits.INCOMPLETE] * bool(failed) + [exits.FINDINGS] * bool(errors)
    codes += [exits.WARNINGS] * (bool(warnings) and strict)
    return exits.worst(codes)
