"""``jetool backup verify``: check that backups are complete and undamaged."""

from __future__ import annotations

import click

from engine.backup.check import check_backups
from engine.backup.je_snapshot import check_snapshot, snapshots_in
from engine.errors import NotFoundError
from engine.storage.base import Storage
from jetool.commands.backup.repository_lookup import DEST_HELP, chosen_id, chosen_of, open_repository
from jetool.commands.backup.rows import CheckedBackup, checked_backup, checked_snapshot
from jetool.frame import exits
from jetool.frame.command import Outputs, command
from jetool.frame.options import Run


@command(
    "verify",
    outputs=lambda: Outputs("table", (CheckedBackup,)),
    features=("fields", "progress"),
    examples=(
        ("Are all backups whole, and do they recover", "jetool backup verify /backup/env"),
        ("The newest one", "jetool backup verify /backup/env latest"),
        ("The snapshots of a node in an archive of JE", "jetool backup verify /archive/rg1-rn1"),
        ("Nightly: sums alone, which is as fast as the disk", "jetool backup verify /backup/env --sums"),
    ),
    exits={
        exits.DONE: "every backup is whole",
        exits.FINDINGS: "a file is missing, changed or damaged, a manifest cannot be read, or a copy does not recover",
        exits.NOT_FOUND: "no directory of backups, none in it, or none of that name",
    },
)
@click.argument("dest", type=click.Path(), metavar="DEST", help=DEST_HELP)
@click.argument("names", metavar="[ID]...", nargs=-1, help="Backups: names, beginnings of names, or latest.")
@click.option("--sums", is_flag=True, help="Sizes and SHA-256 alone.")
def backup_verify(run: Run, dest: str, names: tuple[str, ...], sums: bool) -> int:
    """Check all backups, or the named ones.

    Each file is checked once for its size and SHA-256 and for the checksum of every entry. Then each copy is recovered
    in memory, as a restore would leave it, and the records of its databases are counted. Damage that the original
    already had when it was copied is reported as the original's.

    DEST may also be the directory of a node in the archive of JE 25.3's automatic backups (je.env.runBackup). Then the
    manifests of its snapshots are checked, and their files against the manifests, as by CheckSnapshot. A snapshot that
    is not complete is a finding; CheckSnapshot only says so.
    """
    repository = open_repository(dest)
    snapshots = snapshots_in(repository.storage)
    if snapshots:
        return _verify_snapshots(run, repository.storage, snapshots, names)
    chosen = [chosen_id(repository, name) for name in names] or repository.ids()
    if not chosen:
        raise NotFoundError("no backup yet", file=dest, hint=f"jetool backup ENV {dest} takes one")
    found = check_backups(repository, list(dict.fromkeys(chosen)), sums_only=sums, listener=run.listener)
    run.out.table(CheckedBackup, [checked_backup(one, sums_only=sums) for one in found])
    bad = [one for one in found if one.problems]
    for one in bad:
        run.messages.warning(
            f"backup {one.id} is not whole",
            file=dest,
            found=one.problems[0],
            hint="take a new backup now; another backup of the list may be undamaged",
        )
    return exits.FINDINGS if bad else exits.DONE


def _verify_snapshots(run: Run, storage: Storage, snapshots: list[str], names: tuple[str, ...]) -> int:
    """Check snapshots of JE."""
    chosen = [chosen_of(snapshots, storage.root, name) for name in names] or snapshots
    found = [check_snapshot(storage, name, run.listener) for name in dict.fromkeys(chosen)]
    run.out.table(CheckedBackup, [checked_snapshot(one) for one in found])
    bad = [one for one in found if one.problems]
    for one in bad:
        run.messages.warning(
            f"snapshot {one.id} is not whole",
            file=storage.root,
            found=one.problems[0],
            hint="use another snapshot; jetool backup takes one of its own from the running node",
        )
    return exits.FINDINGS if bad else exits.DONE
