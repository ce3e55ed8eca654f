"""``jetool rollbacks``: rollback periods of a replicated environment, from the log."""

from __future__ import annotations

import click

from engine.log.files import list_log_files
from engine.recovery.rollback_report import report_rollbacks
from engine.storage.disk import DiskStorage
from jetool import exits, kinds
from jetool.command import Outputs, command, environment
from jetool.fate_messages import LOG_EXITS, report_damage
from jetool.opening import require_je
from jetool.options import Run
from jetool.output.rollback_rows import ROLLBACKS, period_rows, timeline


@command(
    "rollbacks",
    only=kinds.JE,
    outputs=lambda: Outputs("document", (ROLLBACKS,)),
    features=("fields", "progress", "times", "keys"),
    examples=(
        ("What was rolled back, as a timeline", "jetool rollbacks /data/env"),
        ("A rollback that a crash interrupted, for a script", "jetool rollbacks /data/env --open-only --json"),
        ("Which records it took back", "jetool rollbacks /data/env --keys --key-format utf8"),
    ),
    exits={
        **LOG_EXITS,
        exits.FINDINGS: "all was read; damage was met, or the rollbacks contradict each other and recovery refuses",
        exits.REFUSED: "a restore marker stands in the environment",
    },
)
@environment
@click.option("--txns", "txns", is_flag=True, help="In text: list the transactions of each period.")
@click.option("--keys", "keys", is_flag=True, help="List the records of each period.")
@click.option(
    "--open-only", is_flag=True, help="Only top-level periods without a RollbackEnd, with what is nested in them."
)
def rollbacks(run: Run, env: str, txns: bool, keys: bool, open_only: bool) -> int:
    """Print the rollback periods that are in the log, nested as recovery sees them.

    A replica that finds itself ahead of the new master rolls back to the matchpoint: RollbackStart, records made
    invisible, RollbackEnd. A period without RollbackEnd was interrupted: the next recovery finishes it. Text is a
    timeline; JSON is the nested list. Nothing is locked, created or changed.
    """
    storage = DiskStorage(env)
    require_je(storage)
    report = report_rollbacks(storage, list_log_files(storage), run.listener)
    periods = [period for period in report.periods if period.is_open or not open_only]
    if run.out.format == "text" and run.out.selected is None:
        run.out.text(timeline(report, periods, run.out.style, txns=txns, keys=keys))
    else:
        run.out.document(ROLLBACKS, ROLLBACKS.row((period_rows(report, periods, keys=keys), report.refused or None)))
    code = report_damage(run, env, report.fates)
    if report.refused:
        run.messages.warning(
            report.refused,
            file=env,
            consequence="the rollbacks contradict each other; recovery refuses this log",
            hint="restore the environment from another node or a backup",
        )
        return exits.FINDINGS
    return code
