"""JSON Schemas (draft 2020-12) of the output of commands, built from the shapes that they declare.

The schema of a command describes the value of ``--format json``, which is always an object. Its ``$defs`` hold what
else machines read:

* ``line``: one line of ``--format ndjson``;
* ``error``: the object on standard error that goes with an error in either format;
* ``progress``: a line of ``--progress json``.

With ``--fields`` records have only the selected fields, so they may lack required ones.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, NamedTuple

from engine.fields import ABSENT, Absent, FieldName, Float, Int, Text, record
from jetool.frame.command import Command, Outputs
from jetool.output.shape import record_schema

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"


@record("error")
class Error(NamedTuple):
    """The error that ended the run."""

    kind: Annotated[Text, "usage, refused, not_found, unsupported, damage, storage, job, interrupted or internal"]
    exit_code: Annotated[Int, "the exit code of the run"]
    what: Annotated[Text, "what is wrong"]
    file: Annotated[Text | Absent, "the file concerned"] = ABSENT
    lsn: Annotated[Text | Absent, "the LSN concerned, 0xFILE/0xOFFSET"] = ABSENT
    expected: Annotated[Text | Absent, "what should have been there"] = ABSENT
    found: Annotated[Text | Absent, "what was there"] = ABSENT
    consequence: Annotated[Text | Absent, "what this means for the data or the run"] = ABSENT
    hint: Annotated[Text | Absent, "the next command or action"] = ABSENT
    report: Annotated[Text | Absent, "the report file of an internal error"] = ABSENT
    commits_after: Annotated[Int | Absent, "recover: committed transactions after the bad entry"] = ABSENT
    commits_synced: Annotated[Int | Absent, "recover: lost commits that the log shows to have been durable"] = ABSENT
    commits_acknowledged: Annotated[Int | Absent, "recover: lost commits that the group has acknowledged"] = ABSENT
    torn_write: Annotated[Int | Absent, "recover: 1 when the bad bytes hold empty sectors, else 0"] = ABSENT


@record("progress")
class ProgressMessage(NamedTuple):
    """Progress of a step."""

    step: Annotated[Text, "name of the step"]
    done: Annotated[Int, "units done: bytes for scans, tasks on Spark"]
    total: Annotated[Int, "units in all, 0 when that is not known"]
    records: Annotated[Int | Absent, "records so far, where a step counts them beside its units"]
    percent: Annotated[Float | Absent, "done of total"]
    left_ms: Annotated[Int | Absent, "milliseconds to the end of the step, at the speed so far"]
    elapsed_ms: Annotated[Int, "milliseconds since the start"]


# The summary of a table, and the last NDJSON line of a document or a table.
@record("summary")
class Count(NamedTuple):
    """The end of the output."""

    count_: Annotated[Int, "number of records", FieldName("count")]


def of(name: str, command: Command) -> dict[str, Any] | None:
    """The schema of a command, or None when it prints plain text only.

    Arguments:
        name: the full name of the command.
        command: the command.
    """
    outputs = command.outputs()
    if outputs.form == "text":
        return None
    # Every line has ``rec``, which distinguishes lines of several shapes.
    lines = [record_schema(one, with_rec=True) for one in outputs.records]
    lines.append(record_schema(outputs.summary or Count, with_rec=True))
    lines += [record_schema(one, with_rec=True) for one in outputs.several or ()]
    return {
        "$schema": DRAFT,
        "title": f"jetool {name}",
        **_value(outputs),
        "$defs": {
            "line": {"oneOf": lines},
            "error": record_schema(Error, with_rec=True),
            "progress": record_schema(ProgressMessage, with_rec=True),
        },
    }


def _value(outputs: Outputs) -> dict[str, Any]:
    """The schema of the value of ``--format json``."""
    if outputs.form == "document":
        documents = [record_schema(one, with_rec=False) for one in outputs.records]
        # Use ``anyOf`` instead of ``oneOf``: a record without ``rec`` can match several schemas, since further keys are
        # allowed.
        return {"anyOf": documents} if len(documents) > 1 else documents[0]
    if outputs.several is not None:
        rows, summary = outputs.several
        alone = outputs._replace(several=None)
        return {"anyOf": [_value(alone), _value(Outputs("stream", (rows,), summary))]}
    key = "findings" if outputs.form == "findings" else "records"
    # Rows of a table have one shape, so ``rec`` would be redundant.
    records = [record_schema(one, with_rec=outputs.form != "table") for one in outputs.records]
    return {
        "type": "object",
        "properties": {
            key: {"type": "array", "items": {"anyOf": records} if len(records) > 1 else records[0]},
            "summary": record_schema(outputs.summary or Count, with_rec=False),
        },
        "required": [key, "summary"],
    }
