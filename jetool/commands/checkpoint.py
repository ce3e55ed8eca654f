"""``jetool checkpoint``: force a checkpoint."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import click

from engine.checkpoint.checkpointer import CheckpointReport
from engine.db.engine import Engine
from engine.errors import JetoolError, UsageError
from engine.format.lsn import NULL_LSN
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage
from jetool.app import exits
from jetool.app.command import Outputs, command, environment
from jetool.app.opening import WRITE_EXITS, open_to_write
from jetool.app.options import Run
from jetool.output.shape import Field, Row, Shape

_LEVEL: Final = (
    Field("level", "int", "level of the nodes; 1 is that of BINs"),
    Field("no", "int", "logged not provisional"),
    Field("yes", "int", "logged provisional"),
    Field("before_ckpt_end", "int", "logged provisional before the CkptEnd"),
)
CHECKPOINT: Final = Shape(
    "checkpoint",
    "One checkpoint.",
    (
        Field("id", "int", "its id"),
        Field("ckpt_start_lsn", "lsn", "the CkptStart"),
        Field("ckpt_end_lsn", "lsn", "the CkptEnd"),
        Field("first_active_lsn", "lsn", "where recovery will begin to undo"),
        Field("root_lsn", "lsn", "the root of the environment"),
        Field("ins", "int", "upper nodes flushed"),
        Field("bins", "int", "BINs flushed whole"),
        Field("deltas", "int", "BINs flushed as deltas"),
        Field("interval_before", "size_bytes", "log that recovery would have read when the command began"),
        Field("interval_after", "size_bytes", "log that it would read now"),
        Field("files_deleted", "int", "files that the cleaner had given up, and that are gone now"),
        Field("recovered", "bool", "the environment was recovered first, with a checkpoint of its own"),
        Field("dry_run", "bool", "nothing was changed"),
        Field("levels", "records", "provisional flags of the nodes, by level", fields=_LEVEL),
    ),
)


def _outputs() -> Outputs:
    from jetool.derby.recover_rows import RECOVERED

    return Outputs("document", (CHECKPOINT, RECOVERED), derby=(RECOVERED,))


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
        exits.DATA_GIVEN_UP: "a checkpoint was taken; committed transactions were given up (--accept-loss)",
        **WRITE_EXITS,
    },
)
@environment
@click.option("--minimize", is_flag=True, help="Flush up to the roots (minimizeRecoveryTime).")
@click.option(
    "--accept-loss", is_flag=True, help="Derby: go on although committed transactions would be lost (exit 6)."
)
def checkpoint(run: Run, env: str, minimize: bool, accept_loss: bool) -> int:
    """Force a checkpoint, and print what it flushed.

    The environment is recovered first when it needs it; that ends with a checkpoint of its own, which the forced one
    follows. Of a Derby database: prints the checkpoint record, its low water marks, the pages written and the log files
    removed; saved bytes, -n and the refusals are those of jetool recover.
    """
    if accept_loss:
        raise UsageError(
            "--accept-loss has no meaning for a JE environment here", hint="jetool verify shows what is lost"
        )
    files = {file.number for file in list_log_files(DiskStorage(env)).files}
    with open_to_write(run, env) as found:
        engine = found.engine
        before = _interval(engine)
        # Recovery ends with a checkpoint only when it has changed something.
        recovered = engine.checkpointer.last_end != engine.recovery.ckpt_end_lsn
        report = found.checkpoint(force=True, minimize=minimize, invoker="api")
        deleted = len(files - {file.number for file in engine.log_files()})
    # A forced checkpoint is always taken (R-CKPT-2).
    if report is None:
        raise JetoolError("a forced checkpoint was not taken", file=env)
    run.out.document(CHECKPOINT, _row(report, before, deleted=deleted, recovered=recovered, dry_run=run.dry_run))
    return exits.DONE


def _interval(engine: Engine) -> int:
    """Bytes of log from the last CkptStart that was found to the end, as the checkpointer measures them."""
    writer, found = engine.writer, engine.recovery
    if writer is None or found.end_lsn == NULL_LSN:
        return 0
    # Both distances are to where the log ends now; their difference is the interval as it was.
    return writer.distance_from(found.ckpt_start_lsn) - writer.distance_from(found.end_lsn)


def _row(report: CheckpointReport, before: int, *, deleted: int, recovered: bool, dry_run: bool) -> Row:
    levels: dict[int, dict[str, int]] = defaultdict(lambda: {"no": 0, "yes": 0, "before_ckpt_end": 0})
    for (level, flag), count in report.provisional.items():
        levels[level][flag] += count
    rows = [
        [("level", "int", level), *((name, "int", count) for name, count in levels[level].items())]
        for level in sorted(levels)
    ]
    return CHECKPOINT.row(
        (
            report.id, report.ckpt_start_lsn, report.ckpt_end_lsn, report.first_active_lsn, report.root_lsn,
            report.full_ins, report.full_bins, report.deltas, before, report.interval_after, deleted,
            recovered, dry_run, rows,
        )
    )  # fmt: skip
