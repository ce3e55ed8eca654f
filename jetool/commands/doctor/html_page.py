"""The HTML page of a diagnosis: the contents of the text, in the style of the fleet report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from engine.diagnosis.nodes import NodeChoice
from engine.diagnosis.record import NO, UNKNOWN, Diagnosis, Reason, Step
from engine.verify.report import NOTE
from jetool.commands.doctor.page import (
    DoctorReport,
    group_title,
    identity_facts,
    loss_lines,
    loss_title,
    node_lines,
    nothing_to_run,
    reason_words,
)
from jetool.fleet_page.page import whole_page
from jetool.fleet_page.svg import plural
from jetool.output.shape import Style

# Classes of the style sheet, for what the badge says in words.
_STATES: Final = {NO: "damaged", UNKNOWN: "unreadable"}


def diagnosis_page(report: DoctorReport, style: Style, made_ms: int, version: str) -> str:
    """The whole page; every name and text in it is escaped.

    Arguments:
        made_ms: time of the diagnosis.
        version: of jetool.
    """
    found = report.directories
    subject = found[0].directory if len(found) == 1 else plural(len(found), "directory", "directories")
    said = f"can start: {report.verdict}" if len(found) == 1 else report.verdict
    main = [
        f'<p class="said"><b>{escape(said)}</b></p>',
        _verdicts(found) if len(found) > 1 else "",
        *(_group(group) for group in report.groups),
        *(_directory(one, style, alone=len(found) == 1) for one in found),
    ]
    foot = "Nothing was created or changed."
    return whole_page("Diagnosis", subject, "".join(main), foot, made_ms, version)


def _verdicts(found: Sequence[Diagnosis]) -> str:
    return _list(f"{escape(one.directory)}: can start: {escape(one.verdict)}" for one in found)


def _list(items: Iterable[str], class_: str = "findings", tag: str = "ul") -> str:
    return f'<{tag} class="{class_}">{"".join(f"<li>{item}</li>" for item in items)}</{tag}>'


def _directory(one: Diagnosis, style: Style, *, alone: bool) -> str:
    state = "clean" if one.is_clean else _STATES.get(one.can_start, "restore-marker")
    badge = f'<span class="state {state}">can start: {escape(one.can_start)}</span>'
    facts = "".join(
        f"<div><dt>{escape(label)}</dt><dd>{escape(text)}</dd></div>" for label, text in identity_facts(one, style)
    )
    # Of a single directory, the verdict is the first line of the page.
    parts = ["" if alone else f"<p>can start: {escape(one.verdict)}</p>", f'<dl class="facts">{facts}</dl>']
    ordered = sorted(one.reasons, key=lambda reason: reason.severity == NOTE)
    if ordered:
        parts.append("<h3>Why</h3>" + _list(map(_reason, ordered)))
    if one.loss.in_words() or one.loss.names:
        parts.append(f"<h3>{escape(loss_title(one).capitalize())}</h3>" + _list(map(escape, loss_lines(one))))
    parts.append("<h3>Next</h3>" + (_steps(one.next) or f"<p>{escape(nothing_to_run(one))}</p>"))
    if one.not_checked:
        parts.append(f'<p class="soft">not checked: {escape(", ".join(one.not_checked))}</p>')
    summary = f"<summary><b>{escape(one.directory)}</b>{badge}</summary>"
    return f'<details open>{summary}<div class="body">{"".join(parts)}</div></details>'


def _reason(reason: Reason) -> str:
    text = f"{escape(reason.severity)} <b>{escape(reason.code)}</b> {escape(reason_words(reason))}"
    if reason.severity == NOTE:
        return text
    return f"{text}<p>Consequence: {escape(reason.consequence)}.<br>Remedy: {escape(reason.remedy)}.</p>"


def _steps(steps: Sequence[Step]) -> str:
    items = [f"<code>{escape(one.command)}</code><br>{escape(one.purpose)}; risk: {escape(one.risk)}" for one in steps]
    return _list(items, "next", "ol") if items else ""


def _group(group: NodeChoice) -> str:
    problem = f"<p>not compared: {escape(group.problem)}</p>" if group.problem else ""
    body = problem + _list(map(escape, node_lines(group))) + _steps(group.next)
    return f'<div class="card"><h3>{escape(group_title(group))}</h3>{body}</div>'
