"""``jetool checkpoint``: force a checkpoint."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import click

from engine.checkpoint.checkpointer import CheckpointReport
from engine.db.engine import Engine
from engine.errors import JetoolError, UsageError
from engine.fields import Bool, Int, Lsn, SizeBytes, record
from engine.format.lsn import NULL_LSN
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage
from jetool.frame import exits
from jetool.frame.command import Outputs, command, environment
from jetool.frame.environments import WRITE_EXITS, open_to_write
from jetool.frame.options import Run


@record()
class FlushedLevel(NamedTuple):
    """Nodes of one tree level that the checkpoint logged."""

    level: Annotated[Int, "level of the nodes; 1 is that of BINs"]
    no: Annotated[Int, "logged not provisional"]
    yes: Annotated[Int, "logged provisional"]
    before_ckpt_end: Annotated[Int, "logged provisional before the CkptEnd"]


@record("checkpoint")
class TakenCheckpoint(NamedTuple):
    """One checkpoint."""

    id: Annotated[Int, "its id"]
    ckpt_start_lsn: Annotated[Lsn, "the CkptStart"]
    ckpt_end_lsn: Annotated[Lsn, "the CkptEnd"]
    first_active_lsn: Annotated[Lsn, "where recovery will begin to undo"]
    root_lsn: Annotated[Lsn, "the root of the environment"]
    ins: Annotated[Int, "upper nodes flushed"]
    bins: Annotated[Int, "BINs flushed whole"]
    deltas: Annotated[Int, "BINs flushed as deltas"]
    interval_before: Annotated[SizeBytes, "log that recovery would have read when the command began"]
    interval_after: Annotated[SizeBytes, "log that it would read now"]
    files_deleted: Annotated[Int, "files that the cleaner had released, and that are now deleted"]
    recovered: Annotated[Bool, "the environment was recovered first, with a checkpoint of its own"]
    dry_run: Annotated[Bool, "nothing was changed"]
    levels: Annotated[Sequence[FlushedLevel], "provisional flags of the nodes, by level"]


def _outputs() -> Outputs:
    from jetool.commands.recover.derby_rows import DerbyRecoveryReport

    return Outputs("document", (TakenCheckpoint, DerbyRecoveryReport), derby=(DerbyRecoveryReport,))


@command(
    "checkpoint",
    outputs=_outputs,
    features=("fields", "progress", "lock", "cache", "order", "write"),
    examples=(
        ("Shorten the next recovery", "jetool checkpoint /data/env"),
        ("What would be flushed", "jetool checkpoint /data/env --minimize -n --json"),
    ),
    exits={
        exits.DONE: "the checkpoint is durable",
        exits.DATA_GIVEN_UP: "a checkpoint was taken; committed transactions were discarded (--accept-loss)",
        **WRITE_EXITS,
    },
)
@environment
@click.option("--minimize", is_flag=True, help="Flush nodes up to the roots (minimizeRecoveryTime).")
@click.option(
    "--accept-loss", is_flag=True, help="Derby: continue although committed transactions will be lost (exit 6)."
)
def checkpoint(run: Run, env: str, minimize: bool, accept_loss: bool) -> int:
    """Force a checkpoint, and print what it flushed.

    The environment is recovered first if it needs it; recovery ends with its own checkpoint, and the forced one
    follows. For a Derby database the command prints the checkpoint record, its low water marks, the pages written and
    the log files removed; it saves bytes, previews (-n) and refuses as jetool recover does.
    """
    if accept_loss:
        raise UsageError(
            "--accept-loss has no meaning for a JE environment here", hint="jetool verify shows what is lost"
        )
    files = {file.number for file in list_log_files(DiskStorage(env)).files}
    with open_to_write(run, env) as found:
        engine = found.engine
        before = _interval(engine)
        # Recovery ends with a checkpoint only if it changed something.
        recovered = engine.checkpointer.last_end != engine.recovery.ckpt_end_lsn
        report = found.checkpoint(force=True, minimize=minimize, invoker="api")
        deleted = len(files - {file.number for file in engine.log_files()})
    # A forced checkpoint is always taken (R-CKPT-2).
    if report is None:
        raise JetoolError("a forced checkpoint was not taken", file=env)
    run.out.document(_taken(report, before, deleted=deleted, recovered=recovered, dry_run=run.dry_run))
    return exits.DONE


def _interval(engine: Engine) -> int:
    """Bytes of log from the last CkptStart to the end of the log at recovery, as the checkpointer measures them."""
    writer, found = engine.writer, engine.recovery
    if writer is None or found.end_lsn == NULL_LSN:
        return 0
    # Both distances end at the current end of the log, so their difference is the distance between the two LSNs.
    return writer.distance_from(found.ckpt_start_lsn) - writer.distance_from(found.end_lsn)


def _taken(report: CheckpointReport, before: int, *, deleted: int, recovered: bool, dry_run: bool) -> TakenCheckpoint:
    levels: dict[int, dict[str, int]] = defaultdict(lambda: {"no": 0, "yes": 0, "before_ckpt_end": 0})
    for (level, flag), count in report.provisional.items():
        levels[level][flag] += count
    rows = [
        FlushedLevel(
            level=level,
            no=levels[level]["no"],
            yes=levels[level]["yes"],
            before_ckpt_end=levels[level]["before_ckpt_end"],
        )
        for level in sorted(levels)
    ]
    return TakenCheckpoint(
        id=report.id,
        ckpt_start_lsn=report.ckpt_start_lsn,
        ckpt_end_lsn=report.ckpt_end_lsn,
        first_active_lsn=report.first_active_lsn,
        root_lsn=report.root_lsn,
        ins=report.full_ins,
        bins=report.full_bins,
        deltas=report.deltas,
        interval_before=before,
        interval_after=report.interval_after,
        files_deleted=deleted,
        recovered=recovered,
        dry_run=dry_run,
        levels=rows,
    )
