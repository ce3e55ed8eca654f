"""``jetool backup list``: the existing backups."""

from __future__ import annotations

from collections import Counter

import click

from jetool.commands.backup.repository_lookup import DEST_HELP, open_repository
from jetool.commands.backup.rows import StoredBackup, stored_backup
from jetool.frame import exits
from jetool.frame.command import Outputs, command
from jetool.frame.options import Run


@command(
    "list",
    outputs=lambda: Outputs("table", (StoredBackup,)),
    features=("fields", "times"),
    examples=(
        ("List the backups", "jetool backup list /backup/env"),
        ("The newest one, for a script", "jetool backup list /backup/env --format ndjson --fields id | tail -2"),
    ),
    exits={
        exits.DONE: "listed",
        exits.FINDINGS: "listed; a manifest cannot be read",
        exits.NOT_FOUND: "no directory of backups",
    },
)
@click.argument("dest", type=click.Path(), metavar="DEST", help=DEST_HELP)
def backup_list(run: Run, dest: str) -> int:
    """List the backups of a directory, the oldest first.

    A file that several backups need is stored once. "Own bytes" is what removing that backup alone would free.
    """
    found = open_repository(dest).backups()
    used = Counter(file.stored for one in found if one.manifest is not None for file in one.manifest.files)
    rows = []
    for one in found:
        files = one.manifest.files if one.manifest is not None else ()
        rows.append(stored_backup(one, sum(file.size_bytes for file in files if used[file.stored] == 1)))
    run.out.table(StoredBackup, rows)
    for one in found:
        if one.manifest is None:
            run.messages.warning(f"backup {one.id} cannot be used", file=dest, found=one.problem)
    return exits.DONE if all(one.manifest is not None for one in found) else exits.FINDINGS
