"""Crashes and cases of the crash matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from engine.errors import plural
from engine.fields import Bool, Int, Lsn, Row, SizeBytes, Text, record
from jetool.output.shape import Style, to_text


@record("crash")
class SimulatedCrash(NamedTuple):
    """A simulated crash."""

    environment: Annotated[Text, "the directory that was damaged"]
    lsn: Annotated[Lsn, "the entry that the crash hit"]
    type: Annotated[Text, "its type"]
    mode: Annotated[Text, "what is left"]
    seed: Annotated[Int, "the seed"]
    end_lsn: Annotated[Lsn, "where the log was cut; null when it was not"]
    cut_bytes: Annotated[SizeBytes, "removed bytes"]
    changed_bytes: Annotated[SizeBytes, "bytes that were overwritten"]
    removed: Annotated[Sequence[Text], "files that are gone"]
    dry_run: Annotated[Bool, "nothing was changed"]


@record("case")
class CrashCaseRow(NamedTuple):
    """One case of the matrix."""

    lsn: Annotated[Lsn, "the entry that the crash hit"]
    type: Annotated[Text, "its type"]
    mode: Annotated[Text, "what was left"]
    passed: Annotated[Bool, "recovery left exactly the committed records, and a second recovery changed nothing"]
    compared: Annotated[Bool, "compared with the log; false if the log is not sufficient, such as after cleaning"]
    records: Annotated[Int, "records afterwards"]
    problem: Annotated[Text | None, "what is wrong"]


@record("summary")
class CrashSummary(NamedTuple):
    """The end of the run."""

    cases: Annotated[Int, "crashes simulated"]
    failed: Annotated[Int, "cases that failed"]
    compared: Annotated[Int, "cases that were compared with the log"]


def text_line(rec: str, row: Row, style: Style) -> str:
    """Lines of text for a row; the line of a case begins with a verdict."""
    shown = {name: to_text(kind, value, style) for name, kind, value in row}
    if rec == "case":
        verdict = "ok    " if shown["passed"] == "yes" else "FAILED"
        # The number is None if the records were not compared with the model.
        number = next(value for name, _, value in row if name == "records")
        records = "- records" if number is None else plural(number, "record")
        problem = "" if shown["problem"] == "-" else f"  {shown['problem']}"
        return f"{verdict}  {shown['lsn']:<21}  {shown['type']:<14}  {records}{problem}"
    return "\n".join(f"  {name.replace('_', ' '):<14} {value}" for name, value in shown.items())
