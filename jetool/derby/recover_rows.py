"""What recovery of a Derby database did, or would do, as a row."""

from __future__ import annotations

from typing import Any, Final

from engine.derby.checkpoint import CheckpointResult
from engine.derby.recovery.manager import DerbyRecoveryResult
from jetool.derby.info_rows import TRUNCATION_FIELDS, truncation_values
from jetool.output.shape import Field, Shape, row_of

_PASS_FIELDS: Final = (
    Field("pass", "text", "what was done", choices=("analysis", "redo", "undo")),
    Field("from", "instant", "where it began"),
    Field("to", "instant", "where it ended"),
    Field("records", "int", "records read; undo: records written"),
    Field("applied", "int", "records done again; undo: CLRs", null=True),
    Field("ignored", "int", "records that the page had already, or whose container is gone", null=True),
)
_UNDONE_FIELDS: Final = (
    Field("transaction", "int", "its number"),
    Field("internal", "bool", "a structure change or a checkpoint; rolled back before all others"),
    Field("clrs", "int", "compensation records written for it"),
)
_CHECKPOINT_FIELDS: Final = (
    Field("instant", "instant", "the checkpoint record"),
    Field("redo_lwm", "instant", "redo low water mark"),
    Field("undo_lwm", "instant", "undo low water mark"),
    *TRUNCATION_FIELDS,
    Field("transaction", "int", "transaction that wrote it"),
    Field("pages", "int", "pages that it wrote"),
    Field("log_files_removed", "ints", "log files that nobody needs any more"),
    Field("stubs_removed", "texts", "stubs of removed containers that went away"),
)
_CHANGE_FIELDS: Final = (
    Field("file", "text", "file below the database directory"),
    Field("bytes", "size_bytes", "bytes that would be written, in blocks of 4096"),
)
RECOVERED: Final = Shape(
    "recovered",
    "What recovery of a Derby database did.",
    (
        Field("environment", "text", "the directory"),
        Field("store", "text", "what it is", choices=("derby",)),
        Field("dry_run", "bool", "nothing was changed: this is the plan"),
        Field("was_clean", "bool", "there was nothing to redo or undo"),
        Field("lost_commits", "int", "committed transactions after the end of the log that were given up"),
        Field("zeroed_bytes", "int", "bytes after the end of the log that were zeroed"),
        Field("pages_written", "int", "pages written"),
        Field("in_doubt", "ints", "prepared transactions (XA) that were kept"),
        Field("saved_in", "text", "directory with the old bytes", null=True),
        Field("duration_ms", "duration_ms", "time that it took"),
        Field("notes", "texts", "what an operator should know"),
        Field("passes", "records", "the passes over the log", fields=_PASS_FIELDS),
        Field("undone", "records", "transactions rolled back, in that order", fields=_UNDONE_FIELDS),
        Field("checkpoint", "record", "the closing checkpoint", null=True, fields=_CHECKPOINT_FIELDS),
        Field("changes", "records", "dry run: what would be written", fields=_CHANGE_FIELDS),
    ),
)


def recovered_row(
    root: str, found: DerbyRecoveryResult, *, dry_run: bool, saved_in: str | None, duration_ms: int
) -> Any:
    """The result of recovery as a row of the shape RECOVERED."""
    return RECOVERED.row(
        (
            root,
            "derby",
            dry_run,
            found.clean,
            found.lost_commits,
            found.zeroed_bytes,
            found.pages_written,
            found.in_doubt,
            saved_in,
            duration_ms,
            found.notes,
            [row_of(_PASS_FIELDS, one) for one in _passes(found)],
            [row_of(_UNDONE_FIELDS, (one.transaction, one.internal, one.clrs)) for one in found.undone],
            None if found.checkpoint is None else _checkpoint(found.checkpoint),
            [row_of(_CHANGE_FIELDS, one) for one in sorted(found.changed.items())],
        )
    )


def _passes(found: DerbyRecoveryResult) -> list[tuple[Any, ...]]:
    start, append = found.analysis.start, found.analysis.end.append
    # Undo writes a CLR for each record that it takes back, so both counts are the same.
    clrs = sum(one.clrs for one in found.undone)
    return [
        ("analysis", start.undo_lwm, append, found.analysis.records, None, None),
        ("redo", start.redo_lwm, append, found.redo_seen, found.redo_applied, found.redo_skipped),
        ("undo", found.undo_from, found.undo_to, clrs, clrs, None),
    ]


def _checkpoint(found: CheckpointResult) -> Any:
    truncation = truncation_values(found.undo_lwm, found.truncation_points)
    work = found.transaction, found.pages, found.log_files_removed, found.stubs_removed
    return row_of(_CHECKPOINT_FIELDS, (found.at, found.redo_lwm, found.undo_lwm, *truncation, *work))
