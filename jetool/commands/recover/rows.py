"""The report of ``jetool recover``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from engine.diagnosis.record import MOST_NAMES, LostName, LostNames
from engine.fields import Bool, DurationMs, Int, Like, Lsn, SizeBytes, Text, Vlsn, record
from engine.format.vlsn import NULL_VLSN
from engine.recovery.result import PassCount, RecoveryResult
from engine.rescue.repair.recovery import RecoveryRun
from engine.verdict import CheckVerdict
from jetool.output.verdicts import VerdictFields


@record()
class LogPass(NamedTuple):
    """A pass over the log."""

    name: Annotated[Text, "the pass"]
    start_lsn: Annotated[Lsn, "where it began to read"]
    end_lsn: Annotated[Lsn, "where it ended"]
    read: Annotated[Int, "entries read"]
    applied: Annotated[Int, "entries that changed the tree"]
    ignored: Annotated[Int, "entries that did not: older than the version in the tree, or without effect"]
    deleted: Annotated[Int, "entries of removed databases"]


@record()
class RecoveryPhase(NamedTuple):
    """A phase and how long it took."""

    name: Annotated[Text, "the phase"]
    duration_ms: Annotated[DurationMs, "how long it took"]


@record()
class RollbackPeriodRow(NamedTuple):
    """A rollback period in the range of recovery."""

    matchpoint_lsn: Annotated[Lsn, "the last entry that was kept"]
    rollback_start_lsn: Annotated[Lsn, "the RollbackStart"]
    rollback_end_lsn: Annotated[Lsn, "the RollbackEnd; null for one that recovery finished"]
    txns: Annotated[Sequence[Int], "transactions that were rolled back"]


@record()
class LastIdsRow(NamedTuple):
    """The last ids in use."""

    node: Annotated[Int, "last node id"]
    replicated_node: Annotated[Int, "last replicated_node id"]
    db: Annotated[Int, "last db id"]
    replicated_db: Annotated[Int, "last replicated_db id"]
    txn: Annotated[Int, "last txn id"]
    replicated_txn: Annotated[Int, "last replicated_txn id"]


@record("recovered")
class RecoveryReport(NamedTuple):
    """What recovery did, or would do."""

    verdict: Annotated[Text, Like(VerdictFields)]
    why: Annotated[Text, Like(VerdictFields)]
    environment: Annotated[Text, "its directory"]
    dry_run: Annotated[Bool, "nothing was changed"]
    end_lsn_before: Annotated[Lsn, "the end of the log that was found"]
    end_lsn_after: Annotated[Lsn, "the end of the log now"]
    cut_bytes: Annotated[SizeBytes, "bytes after the end that were cut off"]
    commits_lost: Annotated[Int, "committed transactions among them"]
    commits_lost_synced: Annotated[Int, "lost commits that the log shows to have been durable"]
    commits_lost_acknowledged: Annotated[Int, "lost commits that the group had acknowledged, according to the log"]
    torn_write: Annotated[Bool, "the bad bytes hold empty sectors, as a write that a crash interrupted leaves"]
    set_aside: Annotated[Sequence[Text], "last files that were renamed to .bad: no entry of them can be kept"]
    removed: Annotated[Sequence[Text], "last files that were removed: empty, or a header alone"]
    ckpt_start_lsn: Annotated[Lsn, "CkptStart of the checkpoint that recovery began with"]
    ckpt_end_lsn: Annotated[Lsn, "its CkptEnd"]
    first_active_lsn: Annotated[Lsn, "where undo ended"]
    root_lsn: Annotated[Lsn, "the root that was used"]
    closing_ckpt_end_lsn: Annotated[Lsn, "CkptEnd of the checkpoint that recovery took; null when none was needed"]
    txns_undone: Annotated[Sequence[Int], "transactions that were undone"]
    txns_prepared: Annotated[Sequence[Int], "transactions that stay prepared"]
    txns_resurrected: Annotated[Sequence[Int], "replicated transactions that stay open for the next master"]
    invisible_set: Annotated[Int, "records of open rollback periods that were made invisible"]
    vlsn_first_before: Annotated[Vlsn, "first VLSN of the log before"]
    vlsn_last_before: Annotated[Vlsn, "last VLSN of the log before"]
    vlsn_first_after: Annotated[Vlsn, "first VLSN of the index now"]
    vlsn_last_after: Annotated[Vlsn, "last VLSN of the index now"]
    backup: Annotated[Text | None, "directory with the old bytes; null when nothing was saved"]
    saved_bytes: Annotated[SizeBytes, "bytes in it"]
    ids: Annotated[LastIdsRow, "last ids in use"]
    lost: Annotated[Sequence[LostName], "what is lost with them, by name; the first thousand"]
    lost_unnamed: Annotated[Int, "how many more there are, and commits whose records cannot be named"]
    rollback_periods: Annotated[Sequence[RollbackPeriodRow], "periods in the range of recovery, latest first"]
    passes: Annotated[Sequence[LogPass], "passes over the log"]
    phases: Annotated[Sequence[RecoveryPhase], "phases with their times"]


def recovered(
    env: str,
    verdict: CheckVerdict,
    done: RecoveryRun,
    vlsns_before: tuple[int, int],
    names: LostNames,
    *,
    dry_run: bool,
) -> RecoveryReport:
    """The report."""
    result, tail = done.result, done.tail
    resurrected = result.resurrected.values()
    first_after, last_after = done.vlsns or (NULL_VLSN, NULL_VLSN)
    return RecoveryReport(
        verdict=verdict.word,
        why=verdict.why,
        environment=env,
        dry_run=dry_run,
        end_lsn_before=tail.end_lsn,
        end_lsn_after=done.end_lsn,
        cut_bytes=tail.given_up_bytes,
        commits_lost=tail.commits_at_risk,
        commits_lost_synced=tail.after.synced,
        commits_lost_acknowledged=tail.after.acknowledged,
        torn_write=tail.after.torn,
        set_aside=list(tail.set_aside),
        removed=list(tail.stubs),
        ckpt_start_lsn=result.ckpt_start_lsn,
        ckpt_end_lsn=result.ckpt_end_lsn,
        first_active_lsn=result.first_active_lsn,
        root_lsn=result.root_lsn,
        closing_ckpt_end_lsn=done.checkpoint_end_lsn,
        txns_undone=sorted(result.undone),
        txns_prepared=sorted(txn.txn_id for txn in resurrected if txn.prepare is not None),
        txns_resurrected=sorted(txn.txn_id for txn in resurrected if txn.prepare is None),
        invisible_set=len(result.rolled_back),
        vlsn_first_before=vlsns_before[0],
        vlsn_last_before=vlsns_before[1],
        vlsn_first_after=first_after,
        vlsn_last_after=last_after,
        backup=done.backup,
        saved_bytes=done.saved_bytes,
        ids=LastIdsRow(
            node=result.ids.node,
            replicated_node=result.ids.replicated_node,
            db=result.ids.db,
            replicated_db=result.ids.replicated_db,
            txn=result.ids.txn,
            replicated_txn=result.ids.replicated_txn,
        ),
        lost=names.lost[:MOST_NAMES],
        lost_unnamed=max(len(names.lost) - MOST_NAMES, 0) + names.broken,
        rollback_periods=_periods(result),
        passes=[_pass(count) for count in result.passes],
        phases=[RecoveryPhase(name=phase.name, duration_ms=phase.duration_ms) for phase in done.phases],
    )


def _periods(result: RecoveryResult) -> list[RollbackPeriodRow]:
    return [
        RollbackPeriodRow(
            matchpoint_lsn=period.matchpoint_lsn,
            rollback_start_lsn=period.start_lsn,
            rollback_end_lsn=period.end_lsn,
            txns=sorted(period.active_txn_ids or ()),
        )
        for top in result.periods
        for period in top.walk()
    ]


def _pass(count: PassCount) -> LogPass:
    ignored = max(0, count.read - count.processed - count.deleted)
    return LogPass(
        name=count.name,
        start_lsn=count.start,
        end_lsn=count.end,
        read=count.read,
        applied=count.processed,
        ignored=ignored,
        deleted=count.deleted,
    )
