"""Output records of the recovery of a Derby database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from engine.derby.checkpoint import CheckpointResult
from engine.derby.recovery.manager import DerbyRecoveryResult
from engine.fields import Bool, Choices, DurationMs, FieldName, Instant, Int, Like, SizeBytes, Text, record
from engine.verdict import CheckVerdict
from jetool.commands.info.derby_rows import Truncation, truncation_of
from jetool.output.verdicts import VerdictFields


@record()
class LogScanPass(NamedTuple):
    """A pass over the log."""

    pass_: Annotated[Text, "what was done", Choices(("analysis", "redo", "undo")), FieldName("pass")]
    from_: Annotated[Instant, "where it began", FieldName("from")]
    to: Annotated[Instant, "where it ended"]
    records: Annotated[Int, "records read; undo: records written"]
    applied: Annotated[Int | None, "records done again; undo: CLRs"]
    ignored: Annotated[Int | None, "records that the page had already, or whose container was removed"]


@record()
class UndoneTransaction(NamedTuple):
    """A transaction that was rolled back."""

    transaction: Annotated[Int, "its number"]
    internal: Annotated[Bool, "a structure change or a checkpoint; rolled back before all others"]
    clrs: Annotated[Int, "compensation records written for it"]


@record()
class ClosingCheckpoint(NamedTuple):
    """The checkpoint at the end of recovery."""

    instant: Annotated[Instant, "the checkpoint record"]
    redo_lwm: Annotated[Instant, "redo low water mark"]
    undo_lwm: Annotated[Instant, "undo low water mark"]
    truncation_points: Annotated[Sequence[Text], Like(Truncation)]
    rep_point: Annotated[Instant, Like(Truncation)]
    earliest_useful: Annotated[Instant, Like(Truncation)]
    transaction: Annotated[Int, "transaction that wrote it"]
    pages: Annotated[Int, "pages that it wrote"]
    log_files_removed: Annotated[Sequence[Int], "log files that recovery no longer needs"]
    stubs_removed: Annotated[Sequence[Text], "stubs of removed containers that went away"]


@record()
class ChangedFile(NamedTuple):
    """A file that recovery would change."""

    file: Annotated[Text, "file below the database directory"]
    bytes: Annotated[SizeBytes, "bytes that would be written, in blocks of 4096"]


@record("recovered")
class DerbyRecoveryReport(NamedTuple):
    """What recovery of a Derby database did."""

    verdict: Annotated[Text, Like(VerdictFields)]
    why: Annotated[Text, Like(VerdictFields)]
    environment: Annotated[Text, "the directory"]
    store: Annotated[Text, "what it is", Choices(("derby",))]
    dry_run: Annotated[Bool, "nothing was changed: this is the plan"]
    was_clean: Annotated[Bool, "there was nothing to redo or undo"]
    lost_commits: Annotated[Int, "committed transactions after the end of the log that were discarded"]
    zeroed_bytes: Annotated[Int, "bytes after the end of the log that were zeroed"]
    pages_written: Annotated[Int, "pages written"]
    in_doubt: Annotated[Sequence[Int], "prepared transactions (XA) that were kept"]
    saved_in: Annotated[Text | None, "directory with the old bytes"]
    duration_ms: Annotated[DurationMs, "time that it took"]
    notes: Annotated[Sequence[Text], "what an operator should know"]
    passes: Annotated[Sequence[LogScanPass], "the passes over the log"]
    undone: Annotated[Sequence[UndoneTransaction], "transactions rolled back, in that order"]
    checkpoint: Annotated[ClosingCheckpoint | None, "the closing checkpoint"]
    changes: Annotated[Sequence[ChangedFile], "dry run: what would be written"]


def derby_recovered(
    root: str,
    verdict: CheckVerdict,
    found: DerbyRecoveryResult,
    *,
    dry_run: bool,
    saved_in: str | None,
    duration_ms: int,
) -> DerbyRecoveryReport:
    """The result of recovery."""
    return DerbyRecoveryReport(
        verdict=verdict.word,
        why=verdict.why,
        environment=root,
        store="derby",
        dry_run=dry_run,
        was_clean=found.clean,
        lost_commits=found.lost_commits,
        zeroed_bytes=found.zeroed_bytes,
        pages_written=found.pages_written,
        in_doubt=found.in_doubt,
        saved_in=saved_in,
        duration_ms=duration_ms,
        notes=found.notes,
        passes=_passes(found),
        undone=[
            UndoneTransaction(transaction=one.transaction, internal=one.internal, clrs=one.clrs) for one in found.undone
        ],
        checkpoint=None if found.checkpoint is None else _checkpoint(found.checkpoint),
        changes=[ChangedFile(file=file, bytes=size) for file, size in sorted(found.changed.items())],
    )


def _passes(found: DerbyRecoveryResult) -> list[LogScanPass]:
    start, append = found.analysis.start, found.analysis.end.append
    # Undo writes a CLR for each undone record, so both counts are equal.
    clrs = sum(one.clrs for one in found.undone)
    analysis = LogScanPass(
        pass_="analysis",
        from_=start.undo_lwm,
        to=append,
        records=found.analysis.records,
        applied=None,
        ignored=None,
    )
    redo = LogScanPass(
        pass_="redo",
        from_=start.redo_lwm,
        to=append,
        records=found.redo_seen,
        applied=found.redo_applied,
        ignored=found.redo_skipped,
    )
    undo = LogScanPass(pass_="undo", from_=found.undo_from, to=found.undo_to, records=clrs, applied=clrs, ignored=None)
    return [analysis, redo, undo]


def _checkpoint(found: CheckpointResult) -> ClosingCheckpoint:
    truncation = truncation_of(found.undo_lwm, found.truncation_points)
    return ClosingCheckpoint(
        instant=found.at,
        redo_lwm=found.redo_lwm,
        undo_lwm=found.undo_lwm,
        truncation_points=truncation.truncation_points,
        rep_point=truncation.rep_point,
        earliest_useful=truncation.earliest_useful,
        transaction=found.transaction,
        pages=found.pages,
        log_files_removed=found.log_files_removed,
        stubs_removed=found.stubs_removed,
    )
