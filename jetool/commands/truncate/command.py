"""``jetool truncate``: cut the log at a point."""

from __future__ import annotations

import click

from engine.rescue.points import Point
from jetool.commands.truncate.rows import TruncationResult, truncated
from jetool.commands.truncate.truncation import cut_log, say_what_went
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command, environment
from jetool.frame.environments import WRITE_EXITS
from jetool.frame.options import Run


@command(
    "truncate",
    outputs=lambda: Outputs("document", (TruncationResult,)),
    features=("fields", "progress", "times", "lock", "write"),
    examples=(
        ("Preview removing the last three commits", "jetool truncate /data/env --to commits:-3 -n"),
        ("Back to before a mistake", "jetool truncate /data/env --to time:2026-11-21T14:00:00Z --yes"),
        ("Exactly the plan of a dry run", "jetool truncate /data/env --to vlsn:4711 --plan 0123456789abcdef --yes"),
    ),
    exits={
        exits.DONE: "cut, or nothing was after the point; no committed transaction was removed",
        **WRITE_EXITS,
        exits.REFUSED: (
            "the environment is locked; committed transactions would be removed and --yes is missing; the rest would "
            "not be complete; the files changed since the plan was made"
        ),
        exits.NOT_FOUND: "no environment; the log has no such point; no entry begins at the LSN",
        exits.DATA_GIVEN_UP: "cut; committed transactions were removed, and their bytes saved",
    },
)
@environment
@click.option("--to", "point", type=params.POINT, required=True, help="The new end of the log: a POINT as above.")
@click.option("--plan", "token", metavar="ID", help="Refuse if the plan differs from the one that a dry run printed.")
def truncate(run: Run, env: str, point: Point, token: str | None) -> int:
    """Cut the log of an environment that no process has open, at a point where no transaction is open.

    POINT is lsn:0xFILE/0xOFFSET (remove that entry and all later ones), vlsn:N (the last VLSN to keep), time:TIME
    (remove later commits), txn:ID (the last transaction to keep), commits:-N (remove the last N Commits), or matchpoint
    (back to that of the last rollback). The log is cut where a transaction ends, at the point or before it, and never
    within a rollback. An LSN at which no entry begins is refused, and the message names the entries before and after
    it.

    With -n it prints what would be removed: commits, records by database, VLSNs, whether a majority of the group is
    known to have some of them, and whether the group accepts the node afterwards. The remaining log is recovered in
    memory first; if it needs files that have been deleted since, the cut is refused. Removed bytes are saved first, and
    jetool undo restores them exactly. Needs --yes if committed transactions are removed.
    """
    done = cut_log(run, env, lambda _: point, token)
    report = truncated(
        env, point.text, done.plan, dry_run=run.dry_run, backup=done.backup, saved_bytes=done.saved_bytes
    )
    run.out.document(report)
    return say_what_went(run, env, done)
