"""Crashes of Derby databases, and cases of their crash matrix, as rows."""

from __future__ import annotations

from typing import Final

from jetool.output.shape import Field, Row, Shape, Style, to_text

CRASH: Final = Shape(
    "crash",
    "A simulated crash of a Derby database.",
    (
        Field("environment", "text", "the directory that was damaged"),
        Field("instant", "instant", "the record that the crash hit; null when it hit the work of recovery"),
        Field("operation", "int", "the write, sync or change of names that did not happen", null=True),
        Field("what", "text", "the type of the record, or what the operation was"),
        Field("mode", "text", "what is left"),
        Field("seed", "int", "the seed"),
        Field("cut_bytes", "size_bytes", "bytes of the log that are gone"),
        Field("changed_bytes", "size_bytes", "bytes that were overwritten"),
        Field("removed", "texts", "files that are gone"),
        Field("dry_run", "bool", "nothing was changed"),
    ),
)
CASE: Final = Shape(
    "case",
    "One case of the matrix of a Derby database.",
    (
        Field("operation", "int", "the operation of recovery that did not happen"),
        Field("what", "text", "what it was"),
        Field("step", "text", "the step of recovery that it belongs to"),
        Field("mode", "text", "what was left of the changes that were not synced"),
        Field("passed", "bool", "recovery left what it leaves uninterrupted, and a second one changed nothing"),
        Field("problem", "text", "what is wrong", null=True),
    ),
)


def text_line(rec: str, row: Row, style: Style) -> str:
    """One line: a verdict in front for a case."""
    shown = {name: to_text(kind, value, style) for name, kind, value in row}
    if rec == "case":
        verdict = "ok    " if shown["passed"] == "yes" else "FAILED"
        problem = "" if shown["problem"] == "-" else f"  {shown['problem']}"
        return f"{verdict}  {shown['operation']:>6}  {shown['what']:<32}  {shown['step']}{problem}"
    return "\n".join(f"  {name.replace('_', ' '):<14} {value}" for name, value in shown.items())
