"""``jetool rollbacks``: rollback periods of a replicated environment, from the log."""

from __future__ import annotations

import click

from engine.errors import UsageError
from engine.fields import ABSENT
from engine.format.vlsn import NULL_VLSN
from engine.inspect.rollback_report import RollbackReport, report_rollbacks
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage
from engine.vlsn.syncup_decision import DEFAULT_ROLLBACK_LIMIT, NETWORK_RESTORE, PROHIBITED, Policy, predict
from jetool.commands.diff.stream_rows import RejoinPrediction, rejoin_prediction
from jetool.commands.rollbacks.rows import Rollbacks, nested_periods, prediction_text, timeline
from jetool.commands.rollbacks.scale import scale
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command, environment
from jetool.frame.kinds import require_je
from jetool.frame.log_damage import LOG_EXITS, report_damage
from jetool.frame.node_stream import StreamNode, require_one_group
from jetool.frame.options import Run


@command(
    "rollbacks",
    outputs=lambda: Outputs("document", (Rollbacks,)),
    features=("fields", "progress", "times", "keys", "jobs"),
    examples=(
        ("What was rolled back, as a timeline", "jetool rollbacks /data/env"),
        ("A rollback that a crash interrupted, for a script", "jetool rollbacks /data/env --open-only --json"),
        ("The records that were rolled back", "jetool rollbacks /data/env --keys --key-format utf8"),
        ("What an old master would lose to rejoin", "jetool rollbacks /data/old --against /data/new --limit 10"),
    ),
    exits={
        **LOG_EXITS,
        exits.FINDINGS: (
            "everything was read; damage was found, or the rollbacks contradict each other, so that recovery "
            "refuses, or the node could not rejoin by itself (--against)"
        ),
        exits.REFUSED: "the environment has a restore marker; or the node of --against is of another group",
    },
)
@environment
@click.option("--txns", "txns", is_flag=True, help="In text: list the transactions of each period.")
@click.option("--keys", "keys", is_flag=True, help="List the records of each period.")
@click.option(
    "--open-only", is_flag=True, help="Only top-level periods without a RollbackEnd, and the periods nested in them."
)
@click.option(
    "--against",
    type=params.DIRECTORY,
    metavar="ENV2",
    help="Predict what the node would roll back as a replica of ENV2.",
)
@click.option(
    "--limit", type=click.IntRange(0), metavar="N", help="With --against: je.rep.txnRollbackLimit.  [default: 10]"
)
def rollbacks(
    run: Run, env: str, txns: bool, keys: bool, open_only: bool, against: str | None, limit: int | None
) -> int:
    """Print the rollback periods in the log, nested as recovery sees them.

    A replica that finds itself ahead of the new master rolls back to the matchpoint: RollbackStart, records made
    invisible, RollbackEnd. A period without RollbackEnd was interrupted: the next recovery finishes it. Text is a
    timeline; JSON is the nested list. Nothing is created or changed.

    With --against the logs of two nodes are compared as syncup does: the matchpoint, the commits after it, how many of
    them are durable, and whether the node may roll them back.
    """
    if limit is not None and against is None:
        raise UsageError(
            "--limit sets how many durable commits may be lost to rejoin", hint="name the other node: --against ENV2"
        )
    storage = DiskStorage(env)
    require_je(storage)
    files = list_log_files(storage)
    report = report_rollbacks(storage, files, run.jobs, run.listener)
    periods = [period for period in report.periods if period.is_open or not open_only]
    predicted, code = None, exits.DONE
    if against is not None:
        policy = Policy(DEFAULT_ROLLBACK_LIMIT if limit is None else limit)
        predicted, code = _predict(run, env, against, policy, txns=txns, keys=keys)
    if run.out.format == "text" and run.out.selected is None:
        text = timeline(report, periods, run.out.style, txns=txns, keys=keys)
        if periods and not report.refused:
            text += "\n\n" + "\n".join(scale(report, periods, files.files, run.out.style.width))
        run.out.text(text if predicted is None else f"{text}\n\n{prediction_text(predicted, run.out.style)}")
    else:
        run.out.document(
            Rollbacks(
                periods=nested_periods(report, periods, keys=keys),
                refused=report.refused or None,
                prediction=predicted if predicted is not None else ABSENT,
            )
        )
    return exits.worst([code, _warn(run, env, report)])


def _predict(
    run: Run, env: str, against: str, policy: Policy, *, txns: bool, keys: bool
) -> tuple[RejoinPrediction, int]:
    replica, feeder = StreamNode(run, env), StreamNode(run, against)
    for node in (replica, feeder):
        if not node.is_replicated:
            raise UsageError("the environment is not replicated: its log holds no VLSN", file=node.env)
    require_one_group(replica, feeder)
    found = predict(replica.facts, replica.log.gaps, feeder.facts, policy)
    # Without a matchpoint the whole log would have to be rolled back.
    matchpoint = NULL_VLSN if found.matchpoint is None else found.matchpoint.vlsn
    commits = [point for point in replica.facts.sync_points.after(matchpoint) if point.is_commit]
    predicted = rejoin_prediction(
        against, found, policy, replica.records_after(matchpoint), commits, txns=txns, keys=keys
    )
    rejoins = found.decision.outcome not in (PROHIBITED, NETWORK_RESTORE)
    return predicted, exits.DONE if rejoins and not (replica.damaged or feeder.damaged) else exits.FINDINGS


def _warn(run: Run, env: str, report: RollbackReport) -> int:
    code = report_damage(run, env, report.damages)
    if not report.refused:
        return code
    run.messages.warning(
        report.refused,
        file=env,
        consequence="the rollbacks contradict each other; recovery refuses this log",
        hint="restore the environment from another node or a backup",
    )
    return exits.FINDINGS
