"""The report of ``jetool recover``."""

from __future__ import annotations

from typing import Any, Final

from engine.format.vlsn import NULL_VLSN
from engine.recovery.result import PassCount
from jetool.commands.recover.recovery_run import RecoveryRun
from jetool.output.shape import Field, Row, Shape, row_of

_PASS: Final = (
    Field("name", "text", "the pass"),
    Field("start_lsn", "lsn", "where it began to read"),
    Field("end_lsn", "lsn", "where it ended"),
    Field("read", "int", "entries read"),
    Field("applied", "int", "entries that changed the tree"),
    Field("ignored", "int", "entries that did not: older than what is there, or of no effect"),
    Field("deleted", "int", "entries of databases that are gone"),
)
_PHASE: Final = (
    Field("name", "text", "the phase"),
    Field("duration_ms", "duration_ms", "how long it took"),
)
_PERIOD: Final = (
    Field("matchpoint_lsn", "lsn", "the last entry that was kept"),
    Field("rollback_start_lsn", "lsn", "the RollbackStart"),
    Field("rollback_end_lsn", "lsn", "the RollbackEnd; null for one that recovery finished"),
    Field("txns", "ints", "transactions that were rolled back"),
)
_IDS: Final = ("node", "replicated_node", "db", "replicated_db", "txn", "replicated_txn")
RECOVERED: Final = Shape(
    "recovered",
    "What recovery did, or would do.",
    (
        Field("environment", "text", "its directory"),
        Field("dry_run", "bool", "nothing was changed"),
        Field("end_lsn_before", "lsn", "the end of the log that was found"),
        Field("end_lsn_after", "lsn", "the end of the log now"),
        Field("cut_bytes", "size_bytes", "bytes after the end that were cut off"),
        Field("commits_lost", "int", "committed transactions among them"),
        Field("commits_lost_synced", "int", "those of them that the log shows to have been durable"),
        Field("commits_lost_acknowledged", "int", "those of them that the group has acknowledged, by the log"),
        Field("torn_write", "bool", "the bad bytes hold empty sectors, as a write that a crash interrupted leaves"),
        Field("set_aside", "texts", "last files that were renamed to .bad: no entry of them can be kept"),
        Field("removed", "texts", "last files that were removed: empty, or a header alone"),
        Field("ckpt_start_lsn", "lsn", "CkptStart of the checkpoint that recovery began with"),
        Field("ckpt_end_lsn", "lsn", "its CkptEnd"),
        Field("first_active_lsn", "lsn", "where undo ended"),
        Field("root_lsn", "lsn", "the root that was used"),
        Field("closing_ckpt_end_lsn", "lsn", "CkptEnd of the checkpoint that recovery took; null when none was needed"),
        Field("txns_undone", "ints", "transactions that were undone"),
        Field("txns_prepared", "ints", "transactions that stay prepared"),
        Field("txns_resurrected", "ints", "replicated transactions that stay open for the next master"),
        Field("invisible_set", "int", "records of open rollback periods that were made invisible"),
        Field("vlsn_first_before", "vlsn", "first VLSN of the log before"),
        Field("vlsn_last_before", "vlsn", "last VLSN of the log before"),
        Field("vlsn_first_after", "vlsn", "first VLSN of the index now"),
        Field("vlsn_last_after", "vlsn", "last VLSN of the index now"),
        Field("backup", "text", "directory with the old bytes; null when nothing was saved", null=True),
        Field("saved_bytes", "size_bytes", "bytes in it"),
        Field("ids", "record", "last ids in use", fields=tuple(Field(name, "int", f"last {name} id") for name in _IDS)),
        Field("rollback_periods", "records", "periods in the range of recovery, latest first", fields=_PERIOD),
        Field("passes", "records", "passes over the log", fields=_PASS),
        Field("phases", "records", "phases with their times", fields=_PHASE),
    ),
)


def recovered_row(env: str, done: RecoveryRun, vlsns_before: tuple[int, int], *, dry_run: bool) -> Row:
    """The report as a row."""
    result, tail = done.result, done.tail
    resurrected = result.resurrected.values()
    after = done.vlsns or (NULL_VLSN, NULL_VLSN)
    return RECOVERED.row(
        (
            env, dry_run, tail.end_lsn, done.end_lsn, tail.given_up_bytes, tail.commits_at_risk,
            tail.after.synced, tail.after.acknowledged, tail.after.torn, list(tail.set_aside), list(tail.stubs),
            result.ckpt_start_lsn, result.ckpt_end_lsn, result.first_active_lsn, result.root_lsn,
            done.checkpoint_end_lsn, sorted(result.undone),
            sorted(txn.txn_id for txn in resurrected if txn.prepare is not None),
            sorted(txn.txn_id for txn in resurrected if txn.prepare is None),
            len(result.rolled_back), *vlsns_before, *after, done.backup, done.saved_bytes,
            [(name, "int", getattr(result.ids, name)) for name in _IDS],
            _periods(done), [_pass(count) for count in result.passes],
            [[("name", "text", phase.name), ("duration_ms", "duration_ms", phase.duration_ms)]
             for phase in done.phases],
        )
    )  # fmt: skip


def _periods(done: RecoveryRun) -> list[Row]:
    values: list[tuple[Any, ...]] = [
        (period.matchpoint_lsn, period.start_lsn, period.end_lsn, sorted(period.active_txn_ids or ()))
        for top in done.result.periods
        for period in top.walk()
    ]
    return [row_of(_PERIOD, value) for value in values]


def _pass(count: PassCount) -> Row:
    ignored = max(0, count.read - count.processed - count.deleted)
    return row_of(_PASS, (count.name, count.start, count.end, count.read, count.processed, ignored, count.deleted))
