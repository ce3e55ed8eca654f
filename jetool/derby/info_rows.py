"""The state of a Derby database as a row for ``jetool info``."""

from __future__ import annotations

from typing import Any, Final

from engine.derby.checkpoint import TruncationPoint, earliest_useful, rep_point
from engine.derby.database import ControlCopy, Controls
from engine.derby.database_info import DerbyAnalysis, Info, OpenTransaction
from engine.derby.format import control, instant
from engine.derby.format.operations.layout import GlobalId
from jetool.output.shape import Field, Shape, row_of

TRUNCATION_FIELDS: Final = (
    Field("truncation_points", "texts", "clients of the store that keep log, and from where on (step 3)"),
    Field("rep_point", "instant", "the earliest of them; null when no client keeps any"),
    Field("earliest_useful", "instant", "rep_point or undo_lwm, whichever is earlier: older log files go (step 8)"),
)
_CONTROL_FIELDS: Final = (
    Field("path", "text", "file below the database directory"),
    Field("present", "bool", "whether it exists"),
    Field("used", "bool", "whether recovery goes by it"),
    Field("checkpoint", "instant", "the checkpoint record that it names"),
    Field("release", "text", "release that it names", null=True),
    Field("flags", "texts", "beta, no-sync (was run without syncing at least once)"),
    Field("problem", "text", "why it cannot be used", null=True),
)
_FILE_FIELDS: Final = (
    Field("file", "text", "log file"),
    Field("bytes", "size_bytes", "its size, zeros at the end included"),
    Field("previous_end", "instant", "end of the file before it"),
    Field("problem", "text", "why its header cannot be used", null=True),
)
_CHECKPOINT_FIELDS: Final = (
    Field("instant", "instant", "the checkpoint record"),
    Field("redo_lwm", "instant", "redo low water mark: redo work starts here"),
    Field("undo_lwm", "instant", "undo low water mark: the scan starts here"),
    *TRUNCATION_FIELDS,
    Field("transactions", "int", "entries of its transaction table, that of the checkpoint itself included"),
)
_RECOVERY_FIELDS: Final = (
    Field("undo_lwm", "instant", "where the scan starts"),
    Field("redo_lwm", "instant", "where redo starts"),
    Field("records", "int", "records to read, checksum records included"),
    Field("bytes", "size_bytes", "bytes to read"),
    Field("records_to_redo", "int", "page and container records at or after the redo low water mark"),
    Field("losers", "ints", "transactions to roll back, in that order, internal ones first"),
    Field("internal", "ints", "internal transactions among them"),
    Field("in_doubt", "ints", "prepared transactions (XA), which are kept"),
    Field("next_transaction", "int", "number that the next transaction gets"),
)
_OPEN_FIELDS: Final = (
    Field("transaction", "int", "its number"),
    Field("state", "text", "what recovery does with it", choices=("loser", "in doubt")),
    Field("internal", "bool", "a structure change or a checkpoint; rolled back before all others"),
    Field("first", "instant", "its begin record"),
    Field("last", "instant", "its last record"),
    Field("records", "int", "its records"),
    Field("global_id", "text", "format:global:branch, the last two in hex", null=True),
)
_AFTER_END_FIELDS: Final = (
    Field("records", "int", "valid records; Derby drops them in silence"),
    Field("commits", "int", "commits and prepares among them"),
    Field("torn_commits", "int", "commits in a group that was not written to its end: nobody was told of them"),
    Field("first", "instant", "the first of them"),
    Field("last", "instant", "the last of them"),
    Field("transactions", "ints", "transactions committed or prepared there, the first hundred"),
    Field("other_bytes", "bool", "bytes other than zero stand there"),
    Field("files", "ints", "later log files"),
)
DERBY_INFO: Final = Shape(
    "info",
    "The control data of a Derby database.",
    (
        Field("environment", "text", "the directory"),
        Field("store", "text", "what it is", choices=("derby",)),
        Field("release", "text", "Derby release of the database", null=True),
        Field("encrypted", "bool", "log records and pages are enciphered and cannot be read"),
        Field("files", "int", "log files"),
        Field("bytes", "size_bytes", "bytes in them"),
        Field("containers", "int", "container files"),
        Field("stubs", "int", "stubs of removed containers"),
        Field("closed_cleanly", "bool", "recovery would do nothing", null=True),
        Field("end_of_log", "instant", "where the next record would go"),
        Field("end_reason", "text", "why the log ends there", null=True),
        Field("torn", "bool", "it ends in something other than zeros or the end of a file", null=True),
        Field("open_for_writing_by", "int", "pid of the JVM that has it open, 0 when not named", null=True),
        Field("interrupted_repair", "text", "the repair that was interrupted, or its undo; see jetool undo", null=True),
        Field("lock_files", "texts", "lock files that exist; without a JVM they are what a crash left"),
        Field("problem", "text", "why recovery would not start, or would start elsewhere", null=True),
        Field("control_files", "records", "both copies of the control data", fields=_CONTROL_FIELDS),
        Field("last_checkpoint", "record", "the checkpoint that recovery starts from", null=True,
              fields=_CHECKPOINT_FIELDS),
        Field("log_files", "records", "log files", fields=_FILE_FIELDS),
        Field("recovery", "record", "what recovery would have to do", null=True, fields=_RECOVERY_FIELDS),
        Field("open_transactions", "records", "transactions without an end", fields=_OPEN_FIELDS),
        Field("after_end", "record", "what follows the end of the log", null=True, fields=_AFTER_END_FIELDS),
    ),
)  # fmt: skip


def info_row(found: Info, repair: str | None, lock_files: list[str]) -> Any:
    """The state of a database as a row of the shape DERBY_INFO."""
    analysis = found.analysis
    # The first two keep recovery from starting, the third lets it start elsewhere.
    problem = found.start_problem or found.problem or (analysis.start.problem if analysis else None)
    head = (
        found.root,
        "derby",
        _release(found.release),
        found.encrypted,
        len(found.log_files),
        sum(file.size_bytes for file in found.log_files),
        found.containers,
        found.stubs,
        analysis.clean if analysis else None,
        analysis.end.append if analysis else 0,
        analysis.end.reason if analysis else None,
        analysis.end.fuzzy if analysis else None,
        found.lock_holder,
        repair,
        lock_files,
        problem,
    )
    files = [(f"log{one.number}.dat", one.size_bytes, one.previous_end, one.problem) for one in found.log_files]
    return DERBY_INFO.row(
        (
            *head,
            [_control(copy, found.controls) for copy in (found.controls.primary, found.controls.mirror)],
            _checkpoint(analysis, found.truncation_points),
            [row_of(_FILE_FIELDS, file) for file in files],
            _recovery(analysis) if analysis else None,
            _open(analysis) if analysis else [],
            row_of(_AFTER_END_FIELDS, analysis.after) if analysis else None,
        )
    )


def global_id_text(found: GlobalId | None) -> str | None:
    """A global transaction id as ``format:global:branch``, the last two in hex."""
    return None if found is None else f"{found.format_id}:{found.global_part.hex()}:{found.branch_part.hex()}"


def _release(found: tuple[int, int] | None) -> str | None:
    return None if found is None else f"{found[0]}.{found[1]}"


def _control(copy: ControlCopy, controls: Controls) -> Any:
    read = copy.control
    flags = [
        name
        for bit, name in ((control.FLAG_BETA, "beta"), (control.FLAG_NO_SYNC, "no-sync"))
        if read is not None and read.flags & bit
    ]
    return row_of(
        _CONTROL_FIELDS,
        (
            copy.path,
            copy.present,
            # Derby reads the mirror only when the first copy cannot be used.
            controls.source == copy.path,
            read.checkpoint if read else 0,
            _release((read.major, read.minor)) if read else None,
            flags,
            copy.problem,
        ),
    )


def _checkpoint(analysis: DerbyAnalysis | None, points: tuple[TruncationPoint, ...]) -> Any:
    if analysis is None or analysis.start.checkpoint is None:
        return None
    marks = analysis.start.checkpoint
    truncation = truncation_values(marks.undo_lwm, points)
    values = analysis.start.checkpoint_at, marks.redo_lwm, marks.undo_lwm, *truncation, len(marks.table or ())
    return row_of(_CHECKPOINT_FIELDS, values)


def truncation_values(undo_lwm: int, points: tuple[TruncationPoint, ...]) -> tuple[Any, ...]:
    """The values of TRUNCATION_FIELDS."""
    texts = [f"{one.client} {instant.show(one.at)}" for one in points]
    return texts, rep_point(points), earliest_useful(undo_lwm, points)


def _recovery(analysis: DerbyAnalysis) -> Any:
    start, losers = analysis.start, analysis.losers
    return row_of(
        _RECOVERY_FIELDS,
        (
            start.undo_lwm,
            start.redo_lwm,
            analysis.records,
            analysis.bytes,
            analysis.to_redo,
            [one.number for one in losers],
            [one.number for one in losers if one.internal],
            [one.number for one in analysis.in_doubt],
            analysis.next_transaction,
        ),
    )


def _open(analysis: DerbyAnalysis) -> list[Any]:
    return [_transaction(one, "loser") for one in analysis.losers] + [
        _transaction(one, "in doubt") for one in analysis.in_doubt
    ]


def _transaction(one: OpenTransaction, state: str) -> Any:
    values = (one.number, state, one.internal, one.first, one.last, one.records, global_id_text(one.global_id))
    return row_of(_OPEN_FIELDS, values)
