"""The state of a Derby database, for ``jetool info``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from engine.derby.checkpoint import TruncationPoint, earliest_useful, rep_point
from engine.derby.database import ControlCopy, Controls
from engine.derby.database_info import DatabaseSurvey, DerbyAnalysis, OpenTransaction
from engine.derby.format import control, instant
from engine.derby.format.operations.layout import GlobalId
from engine.derby.log_tail import RecordsAfterEnd
from engine.fields import Bool, Choices, Instant, Int, Like, SizeBytes, Text, record
from engine.verdict import CheckVerdict
from jetool.output.verdicts import VerdictFields


@record()
class Truncation(NamedTuple):
    """The points up to which the log could be removed."""

    truncation_points: Annotated[Sequence[Text], "clients of the store that keep log, and from where on (step 3)"]
    rep_point: Annotated[Instant, "the earliest of them; null when no client keeps any"]
    earliest_useful: Annotated[Instant, "rep_point or undo_lwm, whichever is earlier: older log files go (step 8)"]


@record()
class ControlFile(NamedTuple):
    """A copy of the control data."""

    path: Annotated[Text, "file below the database directory"]
    present: Annotated[Bool, "whether it exists"]
    used: Annotated[Bool, "whether recovery goes by it"]
    checkpoint: Annotated[Instant, "the checkpoint record that it names"]
    release: Annotated[Text | None, "release that it names"]
    flags: Annotated[Sequence[Text], "beta, no-sync (was run without syncing at least once)"]
    problem: Annotated[Text | None, "why it cannot be used"]


@record()
class LogFileRow(NamedTuple):
    """A log file."""

    file: Annotated[Text, "log file"]
    bytes: Annotated[SizeBytes, "its size, zeros at the end included"]
    previous_end: Annotated[Instant, "end of the previous file"]
    problem: Annotated[Text | None, "why its header cannot be used"]


@record()
class InfoCheckpoint(NamedTuple):
    """The checkpoint that recovery starts from."""

    instant: Annotated[Instant, "the checkpoint record"]
    redo_lwm: Annotated[Instant, "redo low water mark: redo work starts here"]
    undo_lwm: Annotated[Instant, "undo low water mark: the scan starts here"]
    truncation_points: Annotated[Sequence[Text], Like(Truncation)]
    rep_point: Annotated[Instant, Like(Truncation)]
    earliest_useful: Annotated[Instant, Like(Truncation)]
    transactions: Annotated[Int, "entries of its transaction table, that of the checkpoint itself included"]


@record()
class DerbyWork(NamedTuple):
    """What recovery has to do."""

    undo_lwm: Annotated[Instant, "where the scan starts"]
    redo_lwm: Annotated[Instant, "where redo starts"]
    records: Annotated[Int, "records to read, checksum records included"]
    bytes: Annotated[SizeBytes, "bytes to read"]
    records_to_redo: Annotated[Int, "page and container records at or after the redo low water mark"]
    losers: Annotated[Sequence[Int], "transactions to roll back, in that order, internal ones first"]
    internal: Annotated[Sequence[Int], "internal transactions among them"]
    in_doubt: Annotated[Sequence[Int], "prepared transactions (XA), which are kept"]
    next_transaction: Annotated[Int, "number that the next transaction gets"]


@record()
class OpenDerbyTransaction(NamedTuple):
    """A transaction without an end."""

    transaction: Annotated[Int, "its number"]
    state: Annotated[Text, "what recovery does with it", Choices(("loser", "in doubt"))]
    internal: Annotated[Bool, "a structure change or a checkpoint; rolled back before all others"]
    first: Annotated[Instant, "its begin record"]
    last: Annotated[Instant, "its last record"]
    records: Annotated[Int, "its records"]
    global_id: Annotated[Text | None, "format:global:branch, the last two in hex"]


@record()
class AfterEndInfo(NamedTuple):
    """What follows the end of the log."""

    records: Annotated[Int, "valid records; Derby drops them in silence"]
    commits: Annotated[Int, "commits and prepares among them"]
    torn_commits: Annotated[Int, "commits in a group that was not written to its end: none was acknowledged"]
    first: Annotated[Instant, "the first of them"]
    last: Annotated[Instant, "the last of them"]
    transactions: Annotated[Sequence[Int], "transactions committed or prepared there, the first hundred"]
    other_bytes: Annotated[Bool, "there are bytes other than zero"]
    files: Annotated[Sequence[Int], "later log files"]


@record("info")
class DerbyInfo(NamedTuple):
    """The control data of a Derby database."""

    verdict: Annotated[Text, Like(VerdictFields)]
    why: Annotated[Text, Like(VerdictFields)]
    environment: Annotated[Text, "the directory"]
    store: Annotated[Text, "what it is", Choices(("derby",))]
    release: Annotated[Text | None, "Derby release of the database"]
    encrypted: Annotated[Bool, "log records and pages are enciphered and cannot be read"]
    files: Annotated[Int, "log files"]
    bytes: Annotated[SizeBytes, "bytes in them"]
    containers: Annotated[Int, "container files"]
    stubs: Annotated[Int, "stubs of removed containers"]
    closed_cleanly: Annotated[Bool | None, "recovery would do nothing"]
    end_of_log: Annotated[Instant, "where the next record would go"]
    end_reason: Annotated[Text | None, "why the log ends there"]
    torn: Annotated[Bool | None, "it ends in something other than zeros or the end of a file"]
    open_for_writing_by: Annotated[Int | None, "pid of the JVM that has it open, 0 when not named"]
    interrupted_repair: Annotated[Text | None, "the repair that was interrupted, or its undo; see jetool undo"]
    lock_files: Annotated[Sequence[Text], "lock files that exist; without a JVM they are what a crash left"]
    problem: Annotated[Text | None, "why recovery would not start, or would start elsewhere"]
    control_files: Annotated[Sequence[ControlFile], "both copies of the control data"]
    last_checkpoint: Annotated[InfoCheckpoint | None, "the checkpoint that recovery starts from"]
    log_files: Annotated[Sequence[LogFileRow], "log files"]
    recovery: Annotated[DerbyWork | None, "what recovery would have to do"]
    open_transactions: Annotated[Sequence[OpenDerbyTransaction], "transactions without an end"]
    after_end: Annotated[AfterEndInfo | None, "what follows the end of the log"]


def info_of(verdict: CheckVerdict, found: DatabaseSurvey, repair: str | None, lock_files: list[str]) -> DerbyInfo:
    """The state of a database."""
    analysis = found.analysis
    return DerbyInfo(
        verdict=verdict.word,
        why=verdict.why,
        environment=found.root,
        store="derby",
        release=_release(found.release),
        encrypted=found.encrypted,
        files=len(found.log_files),
        bytes=sum(file.size_bytes for file in found.log_files),
        containers=found.containers,
        stubs=found.stubs,
        closed_cleanly=analysis.clean if analysis else None,
        end_of_log=analysis.end.append if analysis else 0,
        end_reason=analysis.end.reason if analysis else None,
        torn=analysis.end.fuzzy if analysis else None,
        open_for_writing_by=found.lock_holder,
        interrupted_repair=repair,
        lock_files=lock_files,
        # The first two problems prevent recovery; with the third one recovery starts at another place.
        problem=found.start_problem or found.problem or (analysis.start.problem if analysis else None),
        control_files=[_control(copy, found.controls) for copy in (found.controls.primary, found.controls.mirror)],
        last_checkpoint=_checkpoint(analysis, found.truncation_points),
        log_files=[
            LogFileRow(
                file=f"log{one.number}.dat",
                bytes=one.size_bytes,
                previous_end=one.previous_end,
                problem=one.problem,
            )
            for one in found.log_files
        ],
        recovery=_recovery(analysis) if analysis else None,
        open_transactions=_open(analysis) if analysis else [],
        after_end=_after_end(analysis.after) if analysis else None,
    )


def _after_end(found: RecordsAfterEnd) -> AfterEndInfo:
    return AfterEndInfo(
        records=found.records,
        commits=found.commits,
        torn_commits=found.torn_commits,
        first=found.first,
        last=found.last,
        transactions=found.transactions,
        other_bytes=found.other_bytes,
        files=found.files,
    )


def global_id_text(found: GlobalId | None) -> str | None:
    """A global transaction id as ``format:global:branch``, the last two in hex."""
    return None if found is None else f"{found.format_id}:{found.global_part.hex()}:{found.branch_part.hex()}"


def _release(found: tuple[int, int] | None) -> str | None:
    return None if found is None else f"{found[0]}.{found[1]}"


def _control(copy: ControlCopy, controls: Controls) -> ControlFile:
    read = copy.control
    flags = [
        name
        for bit, name in ((control.FLAG_BETA, "beta"), (control.FLAG_NO_SYNC, "no-sync"))
        if read is not None and read.flags & bit
    ]
    return ControlFile(
        path=copy.path,
        present=copy.present,
        used=controls.source == copy.path,
        checkpoint=read.checkpoint if read else 0,
        release=_release((read.major, read.minor)) if read else None,
        flags=flags,
        problem=copy.problem,
    )


def _checkpoint(analysis: DerbyAnalysis | None, points: tuple[TruncationPoint, ...]) -> InfoCheckpoint | None:
    if analysis is None or analysis.start.checkpoint is None:
        return None
    marks = analysis.start.checkpoint
    truncation = truncation_of(marks.undo_lwm, points)
    return InfoCheckpoint(
        instant=analysis.start.checkpoint_at,
        redo_lwm=marks.redo_lwm,
        undo_lwm=marks.undo_lwm,
        truncation_points=truncation.truncation_points,
        rep_point=truncation.rep_point,
        earliest_useful=truncation.earliest_useful,
        transactions=len(marks.table or ()),
    )


def truncation_of(undo_lwm: int, points: tuple[TruncationPoint, ...]) -> Truncation:
    """The points from which on the log must be kept."""
    return Truncation(
        truncation_points=[f"{one.client} {instant.show(one.at)}" for one in points],
        rep_point=rep_point(points),
        earliest_useful=earliest_useful(undo_lwm, points),
    )


def _recovery(analysis: DerbyAnalysis) -> DerbyWork:
    start, losers = analysis.start, analysis.losers
    return DerbyWork(
        undo_lwm=start.undo_lwm,
        redo_lwm=start.redo_lwm,
        records=analysis.records,
        bytes=analysis.bytes,
        records_to_redo=analysis.to_redo,
        losers=[one.number for one in losers],
        internal=[one.number for one in losers if one.internal],
        in_doubt=[one.number for one in analysis.in_doubt],
        next_transaction=analysis.next_transaction,
    )


def _open(analysis: DerbyAnalysis) -> list[OpenDerbyTransaction]:
    return [_transaction(one, "loser") for one in analysis.losers] + [
        _transaction(one, "in doubt") for one in analysis.in_doubt
    ]


def _transaction(one: OpenTransaction, state: str) -> OpenDerbyTransaction:
    return OpenDerbyTransaction(
        transaction=one.number,
        state=state,
        internal=one.internal,
        first=one.first,
        last=one.last,
        records=one.records,
        global_id=global_id_text(one.global_id),
    )
