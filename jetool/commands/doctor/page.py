"""The text of a diagnosis: the verdict first, then what it rests on, what is lost, and what to run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final, NamedTuple

from engine.diagnosis.nodes import JOURNALS, LOG, START, STREAM, NodeChoice
from engine.diagnosis.record import DATABASE, DN, JOURNAL, KEY, YES, Diagnosis, Identity, LostName, Reason, Step
from engine.errors import plural
from engine.fields import Text, record
from engine.verify.report import NOTE
from jetool.output.shape import Style, to_text
from jetool.output.text import fold, heading

# Names that are printed of each kind and database; JSON has more.
_MOST_NAMES: Final = 12
# What a node or a copy lacks, by what was compared.
_UNITS: Final = {JOURNALS: "journal", STREAM: "transaction", LOG: "commit"}
_MOST_REASONS: Final = 12
_LABEL: Final = 12
_LABELS: Final = ("is", "node", "group", "log", "journals", "not checked")
_COMMAND: Final = re.compile(r"  \d+\. ")
_KINDS: Final = {DN: "DN"}


@record("doctor")
class DoctorReport(NamedTuple):
    """Directories, what each is, and whether it can start."""

    verdict: Annotated[Text, "one line: of the directory, or of all of them"]
    directories: Annotated[Sequence[Diagnosis], "the directories, in the order of their paths"]
    groups: Annotated[Sequence[NodeChoice], "groups with several nodes among them, and copies of one environment"]


def page(report: DoctorReport, style: Style) -> str:
    """The whole text. With one directory its first line is the verdict."""
    found = report.directories
    lines = [f"can start: {_clean(report.verdict)}" if len(found) == 1 else _clean(report.verdict)]
    if len(found) > 1:
        lines += [f"  {_clean(one.directory)}: can start: {_clean(one.verdict)}" for one in found]
    for group in report.groups:
        lines += ["", *_group(group, style)]
    for one in found:
        lines += ["", *_directory(one, style)]
    return "\n".join(_folded(line, style) for line in lines)


def _folded(line: str, style: Style) -> str:
    """A line that fits the terminal; a command stays whole, so that it can be copied."""
    if _COMMAND.match(line):
        return line
    return fold(line, style.width, _LABEL + 2 if line[2 : 2 + _LABEL].strip() in _LABELS else 2)


def _clean(text: str) -> str:
    return to_text("text", text)


def _line(label: str, text: str) -> str:
    return f"  {label:<{_LABEL}}  {text}"


def _directory(one: Diagnosis, style: Style) -> Iterator[str]:
    yield heading(_clean(one.directory), style)
    yield from _identity(one, style)
    told = [reason for reason in one.reasons if reason.severity != NOTE]
    notes = [reason for reason in one.reasons if reason.severity == NOTE]
    if told or notes:
        yield heading("why", style)
    for reason in [*told, *notes][:_MOST_REASONS]:
        yield f"  {reason.severity} {reason.code}  {reason_words(reason)}"
        if reason.severity != NOTE:
            yield f"    consequence: {_clean(reason.consequence)}"
            yield f"    remedy: {_clean(reason.remedy)}"
    if len(one.reasons) > _MOST_REASONS:
        yield f"  and {len(one.reasons) - _MOST_REASONS} more: jetool verify lists them all"
    if one.loss.in_words() or one.loss.names:
        yield heading(loss_title(one), style)
        yield from (f"  {line}" for line in loss_lines(one))
    yield heading("next", style)
    if not one.next:
        yield f"  {nothing_to_run(one)}"
    yield from _steps(one.next)
    if one.not_checked:
        yield _line("not checked", _clean(", ".join(one.not_checked)))


def reason_words(reason: Reason) -> str:
    """A reason with its place, if its text does not name that."""
    place = ", ".join(part for part in (reason.file, reason.place) if part and part not in reason.text)
    return _clean(reason.text) + (f" ({_clean(place)})" if place else "")


def loss_title(one: Diagnosis) -> str:
    """The heading over what is lost."""
    return "lost by starting it" if one.can_start == YES else "lost"


def nothing_to_run(one: Diagnosis) -> str:
    """What stands in the place of commands if there are none."""
    return "nothing: start it" if one.is_clean else "see the remedies above"


def _identity(one: Diagnosis, style: Style) -> Iterator[str]:
    return (_line(label, text) for label, text in identity_facts(one, style))


def identity_facts(one: Diagnosis, style: Style) -> Iterator[tuple[str, str]]:
    """What a directory is: labels and texts."""
    found = one.identity
    yield "is", _clean(found.title)
    if found.node or found.role:
        yield "node", _clean(", ".join(part for part in (found.node, found.role) if part))
    if found.group:
        members = f", with {', '.join(found.members)}" if found.members else ""
        yield "group", _clean(f"{found.group} {found.group_uuid}{members}")
    yield "log", _log(found, style)
    if one.journals is not None:
        yield "journals", f"{one.journals.first} to {one.journals.last}"


def _log(found: Identity, style: Style) -> str:
    parts = [plural(found.files, "file"), to_text("size_bytes", found.bytes, style)]
    if found.versions:
        versions = ", ".join(dict.fromkeys(one.version for one in found.versions))
        parts.append(f"version {versions} ({found.release})")
    if found.last_time is not None:
        parts.append(f"last transaction {to_text('time', found.last_time, style)}")
    return ", ".join(parts)


def loss_lines(one: Diagnosis) -> Iterator[str]:
    """What is lost: how much, and by name."""
    loss = one.loss
    if loss.in_words():
        yield f"{loss.in_words()}" + (f"; {_clean(loss.evidence)}" if loss.evidence else "")
    if loss.broken:
        have = plural(loss.broken, "commit has", "commits have")
        yield f"{have} a part in the damaged bytes, which cannot be named"
    for (kind, db), names in _grouped(loss.names).items():
        shown = _ranges(names) if kind == JOURNAL else [name.name for name in names]
        more = f" and {len(shown) - _MOST_NAMES} more" if len(shown) > _MOST_NAMES else ""
        label = f"{_KINDS.get(kind, kind)}s" + (f" of {db}" if db else "")
        # A DN has commas of its own.
        between = ", " if kind in (JOURNAL, KEY) else "; "
        yield f"{_clean(label)}: {_clean(between.join(shown[:_MOST_NAMES]))}{more}"
    if loss.unnamed:
        yield f"and {loss.unnamed} more that are not named"


def _grouped(names: Iterable[LostName]) -> dict[tuple[str, str | None], list[LostName]]:
    found: dict[tuple[str, str | None], list[LostName]] = {}
    for name in names:
        # Journals follow each other through their databases; a DN stands in several.
        db = None if name.kind in (JOURNAL, DN, DATABASE) else name.db
        found.setdefault((name.kind, db), []).append(name)
    return found


def _ranges(names: Sequence[LostName]) -> list[str]:
    """Journal ids, consecutive ones as ranges: 777, 780-782."""
    # Merged without counting them out: a destroyed range is as long as a key in the log says.
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(_ids(one.name) for one in names):
        if merged and begin <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return [str(begin) if begin == end else f"{begin}-{end}" for begin, end in merged]


def _ids(name: str) -> tuple[int, int]:
    first, _, last = name.partition("-")
    return int(first), int(last or first)


def _steps(steps: Sequence[Step]) -> Iterator[str]:
    for number, step in enumerate(steps, start=1):
        yield f"  {number}. {_clean(step.command)}"
        yield f"     {_clean(step.purpose)}; risk: {_clean(step.risk)}"


def _group(group: NodeChoice, style: Style) -> Iterator[str]:
    yield heading(group_title(group), style)
    if group.problem:
        yield f"  not compared: {_clean(group.problem)}"
    yield from (f"  {line}" for line in node_lines(group))
    yield from _steps(group.next)


def group_title(group: NodeChoice) -> str:
    """The heading of a group or of copies: the one to start from."""
    title = "copies of one environment" if group.uuid is None else f"group {group.group} {group.uuid}"
    return _clean(f"{title}: start from {group.start or 'none of these'}")


def node_lines(group: NodeChoice) -> Iterator[str]:
    """Each node of a group: where it ends, what it lacks, what only it has."""
    unit = _UNITS[group.basis]
    for one in group.nodes:
        parts = [one.standing if one.standing != START else "start from this one"]
        if one.last is not None:
            parts.append(f"ends at {group.basis.removesuffix('s') if group.basis != 'stream' else 'VLSN'} {one.last}")
        if one.behind:
            parts.append(f"lacks {plural(one.behind, unit)}")
        if one.own:
            parts.append(f"has {plural(one.own, unit)} that only it has, look at them before they are lost")
        yield f"{_clean(one.directory)}: {', '.join(parts)}"
