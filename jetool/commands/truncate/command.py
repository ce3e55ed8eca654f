"""``jetool truncate``: cut the log at a point."""

from __future__ import annotations

from typing import Final

import click

from engine.errors import RefusedError
from engine.format.lsn import format_lsn
from engine.rescue import truncation
from engine.rescue.points import Point
from engine.rescue.truncation import TruncationPlan, plan_truncation
from engine.storage.disk import DiskStorage
from engine.storage.saved_bytes import SavingStorage
from jetool.app import exits, params
from jetool.app.command import Outputs, command, environment
from jetool.app.interrupted import as_before, locked
from jetool.app.opening import WRITE_EXITS, backup_directory, full_backup_named, require_je
from jetool.app.options import Run
from jetool.commands.truncate.rows import TRUNCATED, truncated_row, vlsns_text

COMMAND: Final = "truncate"
_SALVAGE_FIRST: Final = "jetool salvage reads what stands after damage; preview the cut with -n; add --yes to do it"


@command(
    COMMAND,
    outputs=lambda: Outputs("document", (TRUNCATED,)),
    features=("fields", "progress", "times", "lock", "write"),
    examples=(
        ("What would go with the last three commits", "jetool truncate /data/env --to commits:-3 -n"),
        ("Back to before a mistake", "jetool truncate /data/env --to time:2026-11-21T14:00:00Z --yes"),
        ("Exactly what a dry run has shown", "jetool truncate /data/env --to vlsn:4711 --plan 0123456789abcdef --yes"),
    ),
    exits={
        exits.DONE: "cut, or nothing stands after the point; no committed transaction went",
        **WRITE_EXITS,
        exits.REFUSED: "the environment is locked; committed transactions would go and --yes is missing; what is left "
        "would not be whole; the files changed since the plan was made",
        exits.NOT_FOUND: "no environment; the log has no such point; no entry begins at the LSN",
        exits.DATA_GIVEN_UP: "cut; committed transactions went, their bytes were saved",
    },
)
@environment
@click.option("--to", "point", type=params.POINT, required=True, help="Where the log is to end; see above.")
@click.option("--plan", "token", metavar="ID", help="Refuse unless the plan is the one that a dry run printed.")
def truncate(run: Run, env: str, point: Point, token: str | None) -> int:
    """Cut the log of an environment that nobody has open, at a point where no transaction is open.

    POINT is lsn:0xFILE/0xOFFSET (that entry and what follows goes), vlsn:N (the last VLSN that stays), time:TIME (what
    committed later goes), txn:ID (the last transaction that stays), commits:-N (the last N Commits go), or matchpoint
    (back to that of the last rollback). The cut is where a transaction ends, at the point or before it, and never
    within a rollback; an LSN at which no entry begins is refused, and the two beside it are named.

    With -n it prints what would go: commits, records by database, VLSNs, whether a majority of the group is known to
    have some of them, and whether the group takes the node back. Before anything is cut, what will be left is recovered
    in memory; when files that it needs have been deleted since, it is refused. Everything that goes is saved first:
    jetool undo brings it back, byte for byte. Needs --yes when committed transactions go.
    """
    disk = DiskStorage(env)
    require_je(disk)
    if run.dry_run:
        plan = plan_truncation(as_before(disk), point, run.listener)
        _require_same(env, plan, token)
        run.out.document(TRUNCATED, truncated_row(env, point.text, plan, dry_run=True, backup=None, saved_bytes=0))
        return _code(run, env, plan)
    # The plan is made under the lock: nobody writes between the plan and the cut.
    with locked(run, disk):
        plan = plan_truncation(disk, point, run.listener)
        _require_same(env, plan, token)
        _require_consent(run, env, plan)
        backup, saved_bytes = _cut(run, env, disk, plan) if plan.changes else (None, 0)
    run.out.document(
        TRUNCATED, truncated_row(env, point.text, plan, dry_run=False, backup=backup, saved_bytes=saved_bytes)
    )
    if backup is not None:
        run.messages.notice(f"what was cut off is saved in {backup}", hint=f"jetool undo {env} brings it back")
    return _code(run, env, plan)


def _cut(run: Run, env: str, disk: DiskStorage, plan: TruncationPlan) -> tuple[str | None, int]:
    """Cut; where what goes was saved, and how many bytes."""
    backup = backup_directory(run, env)
    if backup is None:
        truncation.truncate(disk, plan)
        return None, 0
    saving = SavingStorage(disk, backup, COMMAND)
    with full_backup_named(backup):
        try:
            truncation.truncate(saving, plan)
        except BaseException:
            # The marker stays until undo or the next command settles it.
            saving.interrupt()
            raise
        saving.finish({})
    return backup.root, saving.saved_bytes


def _require_same(env: str, plan: TruncationPlan, token: str | None) -> None:
    """Refuse a plan that is not the one the operator has seen."""
    if token is not None and token != plan.token:
        raise RefusedError(
            "the files have changed since that plan was made",
            file=env,
            expected=token,
            found=plan.token,
            consequence="nothing was changed",
            hint="look at the plan again with -n",
        )


def _require_consent(run: Run, env: str, plan: TruncationPlan) -> None:
    """Refuse to give commits up without --yes."""
    if plan.content.commits and not run.yes:
        words = ", ".join(part for part in (vlsns_text(plan), _durable_text(plan), _damage_text(plan)) if part)
        raise RefusedError(
            f"{plan.content.commits} committed transactions would be cut off",
            file=env,
            lsn=format_lsn(plan.cut.end_lsn),
            found=words or None,
            consequence="nothing was changed",
            hint=_SALVAGE_FIRST if plan.content.after_damage else "preview it with -n; add --yes to do it",
        )


def _code(run: Run, env: str, plan: TruncationPlan) -> int:
    if not plan.changes:
        run.messages.notice("nothing stands after that point; nothing was changed", file=env)
    if not plan.content.commits:
        return exits.DONE
    word = "would be" if run.dry_run else "were"
    run.messages.warning(
        f"{plan.content.commits} committed transactions {word} cut off",
        file=f"{env}/{plan.cut_file.path}",
        lsn=format_lsn(plan.cut.end_lsn),
        found=", ".join(part for part in (_durable_text(plan), _damage_text(plan)) if part) or None,
    )
    return exits.DATA_GIVEN_UP


def _durable_text(plan: TruncationPlan) -> str:
    durable = plan.content.durable
    return f"{durable} of them are known to be on a majority of the group" if durable else ""


def _damage_text(plan: TruncationPlan) -> str:
    after = plan.content.after_damage
    return f"{after} of them stand intact after damage in the last file" if after else ""
