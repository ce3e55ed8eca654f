"""``jetool backup prune``: remove old backups."""

from __future__ import annotations

import click

from engine.backup.retention import parse_rule, plan_prune, prune
from jetool.commands.backup.repository_lookup import DEST_HELP, open_repository
from jetool.commands.backup.rows import PrunedBackups, pruned_backups
from jetool.frame import exits
from jetool.frame.command import Outputs, command
from jetool.frame.options import Run


def _check(_run: Run, *, keep: str, **_: object) -> None:
    parse_rule(keep)


@command(
    "prune",
    check=_check,
    outputs=lambda: Outputs("document", (PrunedBackups,)),
    features=("fields", "progress", "times", "plan"),
    examples=(
        ("What would go", "jetool backup prune /backup/env --keep 7d4w -n"),
        ("One for each of 7 days, 4 weeks and 12 months", "jetool backup prune /backup/env --keep 7d4w12m"),
        ("The last ten", "jetool backup prune /backup/env --keep 10l"),
    ),
    exits={
        exits.DONE: "removed, or nothing was to be removed",
        exits.REFUSED: "another run adds or removes backups",
        exits.NOT_FOUND: "no directory of backups",
        exits.INCOMPLETE: (
            "a manifest cannot be read, so nothing was removed; or a file cannot be removed: run the command again "
            "to continue"
        ),
    },
)
@click.argument("dest", type=click.Path(), metavar="DEST", help=DEST_HELP)
@click.option(
    "--keep",
    required=True,
    metavar="RULE",
    help="Numbers with l (last), h, d, w, m, y: 7d4w keeps one for each of 7 days and one for each of 4 weeks.",
)
def backup_prune(run: Run, dest: str, keep: str) -> int:
    """Remove the backups that RULE does not keep, and the files that no other backup needs.

    For each environment in DEST, RULE keeps the newest backup of each of the last days, weeks and so on that have one.
    The newest backup of all is always kept. Times are in UTC. Manifests are removed before files, so every listed
    backup is complete even if the run is killed. If a manifest cannot be read, nothing is removed.
    """
    repository, rule = open_repository(dest), parse_rule(keep)
    done = plan_prune(repository, rule) if run.dry_run else prune(repository, rule)
    run.out.document(pruned_backups(dest, keep, done, dry_run=run.dry_run))
    return exits.DONE
