"""JSON Schemas (draft 2020-12) of what commands print, built from the shapes that they declare.

The schema of a command describes the value of ``--format json``, which is always an object. Its ``$defs`` hold what
else machines read:

* ``line``: one line of ``--format ndjson``;
* ``error``: the object on standard error that goes with an error in either format;
* ``progress``: a line of ``--progress json``.

With ``--fields`` the records hold what was asked for, and no longer all that the schema requires.
"""

from __future__ import annotations

from typing import Any, Final

from jetool.app.command import Command, Outputs
from jetool.output.shape import Field, Shape

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"

ERROR: Final = Shape(
    "error",
    "The error that ended the run.",
    (
        Field("kind", "text", "usage, refused, not_found, unsupported, damage, storage, job, interrupted or internal"),
        Field("exit_code", "int", "the exit code of the run"),
        Field("what", "text", "what is wrong"),
        Field("file", "text", "the file concerned", optional=True),
        Field("lsn", "text", "the LSN concerned, 0xFILE/0xOFFSET", optional=True),
        Field("expected", "text", "what should have been there", optional=True),
        Field("found", "text", "what was there", optional=True),
        Field("consequence", "text", "what this means for the data or the run", optional=True),
        Field("hint", "text", "the next command or action", optional=True),
        Field("report", "text", "the report file of an internal error", optional=True),
        Field("commits_after", "int", "recover: committed transactions after the bad entry", optional=True),
        Field("commits_synced", "int", "recover: those of them that the log shows to have been durable", optional=True),
        Field("commits_acknowledged", "int", "recover: those that the group has acknowledged", optional=True),
        Field("torn_write", "int", "recover: 1 when the bad bytes hold empty sectors, else 0", optional=True),
    ),
)

PROGRESS: Final = Shape(
    "progress",
    "How far a step has come.",
    (
        Field("step", "text", "name of the step"),
        Field("done", "int", "units done: bytes for scans, tasks on Spark"),
        Field("total", "int", "units in all, 0 when that is not known"),
        Field("records", "int", "records so far, where a step counts them beside its units", optional=True),
        Field("percent", "float", "done of total", optional=True),
        Field("left_ms", "int", "milliseconds to the end of the step, at the speed so far", optional=True),
        Field("elapsed_ms", "int", "milliseconds since the start"),
    ),
)

# The summary of a table, and the last line of NDJSON where a document or a table is printed.
COUNT: Final = Shape("summary", "The end of the output.", (Field("count", "int", "number of records"),))


def of(name: str, command: Command) -> dict[str, Any] | None:
    """The schema of a command, or None when it prints plain text only.

    Arguments:
        name: the words that call it.
        command: the command.
    """
    outputs = command.outputs()
    if outputs.form == "text":
        return None
    # Lines of several shapes are told apart by ``rec``.
    lines = [shape.schema(with_rec=True) for shape in outputs.shapes]
    lines.append((outputs.summary or COUNT).schema(with_rec=True))
    return {
        "$schema": DRAFT,
        "title": f"jetool {name}",
        **_value(outputs),
        "$defs": {
            "line": {"oneOf": lines},
            "error": ERROR.schema(with_rec=True),
            "progress": PROGRESS.schema(with_rec=True),
        },
    }


def _value(outputs: Outputs) -> dict[str, Any]:
    """The schema of the value of ``--format json``."""
    if outputs.form == "document":
        documents = [shape.schema(with_rec=False) for shape in outputs.shapes]
        # ``anyOf``: without ``rec`` a record with further keys can match several.
        return {"anyOf": documents} if len(documents) > 1 else documents[0]
    key = "findings" if outputs.form == "findings" else "records"
    # Rows of a table are of one shape, so that ``rec`` would only repeat.
    records = [shape.schema(with_rec=outputs.form != "table") for shape in outputs.shapes]
    return {
        "type": "object",
        "properties": {
            key: {"type": "array", "items": {"anyOf": records} if len(records) > 1 else records[0]},
            "summary": (outputs.summary or COUNT).schema(with_rec=False),
        },
        "required": [key, "summary"],
    }
