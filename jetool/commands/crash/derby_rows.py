"""Crashes of Derby databases, and cases of their crash matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from engine.fields import Bool, Instant, Int, Row, SizeBytes, Text, record
from jetool.output.shape import Style, to_text


@record("crash")
class DerbyCrash(NamedTuple):
    """A simulated crash of a Derby database."""

    environment: Annotated[Text, "the directory that was damaged"]
    instant: Annotated[Instant, "the record that the crash hit; null when it hit the work of recovery"]
    operation: Annotated[Int | None, "the write, sync or change of names that did not happen"]
    what: Annotated[Text, "the type of the record, or what the operation was"]
    mode: Annotated[Text, "what is left"]
    seed: Annotated[Int, "the seed"]
    cut_bytes: Annotated[SizeBytes, "removed bytes of the log"]
    changed_bytes: Annotated[SizeBytes, "bytes that were overwritten"]
    removed: Annotated[Sequence[Text], "files that are gone"]
    dry_run: Annotated[Bool, "nothing was changed"]


@record("case")
class RecoveryCrash(NamedTuple):
    """One case of the matrix of a Derby database."""

    operation: Annotated[Int, "the operation of recovery that did not happen"]
    what: Annotated[Text, "what it was"]
    step: Annotated[Text, "the step of recovery that it belongs to"]
    mode: Annotated[Text, "what was left of the changes that were not synced"]
    passed: Annotated[
        Bool, "recovery gave the result of an uninterrupted recovery, and a second recovery changed nothing"
    ]
    problem: Annotated[Text | None, "what is wrong"]


def text_line(rec: str, row: Row, style: Style) -> str:
    """Lines of text for a row; the line of a case begins with a verdict."""
    shown = {name: to_text(kind, value, style) for name, kind, value in row}
    if rec == "case":
        verdict = "ok    " if shown["passed"] == "yes" else "FAILED"
        problem = "" if shown["problem"] == "-" else f"  {shown['problem']}"
        return f"{verdict}  {shown['operation']:>6}  {shown['what']:<32}  {shown['step']}{problem}"
    return "\n".join(f"  {name.replace('_', ' '):<14} {value}" for name, value in shown.items())
