"""Crashes and cases of the crash matrix as rows."""

from __future__ import annotations

from typing import Final

from engine.errors import plural
from jetool.output.shape import Field, Row, Shape, Style, to_text

CRASH: Final = Shape(
    "crash",
    "A simulated crash.",
    (
        Field("environment", "text", "the directory that was damaged"),
        Field("lsn", "lsn", "the entry that the crash hit"),
        Field("type", "text", "its type"),
        Field("mode", "text", "what is left"),
        Field("seed", "int", "the seed"),
        Field("end_lsn", "lsn", "where the log was cut; null when it was not"),
        Field("cut_bytes", "size_bytes", "bytes that are gone"),
        Field("changed_bytes", "size_bytes", "bytes that were overwritten"),
        Field("removed", "texts", "files that are gone"),
        Field("dry_run", "bool", "nothing was changed"),
    ),
)
CASE: Final = Shape(
    "case",
    "One case of the matrix.",
    (
        Field("lsn", "lsn", "the entry that the crash hit"),
        Field("type", "text", "its type"),
        Field("mode", "text", "what was left"),
        Field("passed", "bool", "recovery left what was committed, and a second one changed nothing"),
        Field("compared", "bool", "compared with the log; false when that does not tell, such as after cleaning"),
        Field("records", "int", "records afterwards"),
        Field("problem", "text", "what is wrong", null=True),
    ),
)
SUMMARY: Final = Shape(
    "summary",
    "The end of the run.",
    (
        Field("cases", "int", "crashes simulated"),
        Field("failed", "int", "cases that failed"),
        Field("compared", "int", "cases that were compared with the log"),
    ),
)


def text_line(rec: str, row: Row, style: Style) -> str:
    """One line: a verdict in front for a case."""
    shown = {name: to_text(kind, value, style) for name, kind, value in row}
    if rec == "case":
        verdict = "ok    " if shown["passed"] == "yes" else "FAILED"
        # Of a crash that was not compared nobody has counted the records.
        number = next(value for name, _, value in row if name == "records")
        records = "- records" if number is None else plural(number, "record")
        problem = "" if shown["problem"] == "-" else f"  {shown['problem']}"
        return f"{verdict}  {shown['lsn']:<21}  {shown['type']:<14}  {records}{problem}"
    return "\n".join(f"  {name.replace('_', ' '):<14} {value}" for name, value in shown.items())
