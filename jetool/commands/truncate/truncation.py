"""Cutting a log for a command: either a preview, or the cut itself with lock, plan, consent and saved bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from engine.errors import RefusedError, plural
from engine.format.lsn import format_lsn
from engine.rescue import truncation
from engine.rescue.points import Point
from engine.rescue.repair.access import backup_directory, full_backup_named
from engine.rescue.repair.settlement import as_before
from engine.rescue.truncation import TruncationPlan, plan_truncation
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.storage.saved_bytes import SavingStorage
from jetool.commands.truncate.rows import vlsns_text
from jetool.frame import exits
from jetool.frame.interrupted import locked
from jetool.frame.kinds import require_je
from jetool.frame.options import Run

# The name of a cut for undo, whichever command made it.
COMMAND: Final = "truncate"
_SALVAGE_FIRST: Final = "jetool salvage reads the records after damage; preview the cut with -n; add --yes to do it"


class CutDone(NamedTuple):
    """A cut, or the preview of a cut.

    Attributes:
        point: the requested end of the log.
        plan: what went.
        backup, saved_bytes: directory and number of the saved bytes; None and 0 if nothing was saved.
    """

    point: Point
    plan: TruncationPlan
    backup: str | None
    saved_bytes: int


def cut_log(run: Run, env: str, point_in: Callable[[Storage], Point], token: str | None) -> CutDone:
    """Cut the log of an environment at a point, following the options of writing commands.

    Arguments:
        point_in: finds the point; called under the lock, so that the log cannot change before the cut.
        token: identifies the plan that the operator has seen; None accepts any plan.

    Raises:
        JetoolError: as ``plan_truncation``; or the plan differs from the token; or consent is missing.
    """
    disk = DiskStorage(env)
    require_je(disk)
    if run.dry_run:
        view = as_before(disk)
        point = point_in(view)
        plan = plan_truncation(view, point, run.listener)
        _require_same(env, plan, token)
        return CutDone(point, plan, None, 0)
    # The plan is made under the lock: no other process writes between the plan and the cut.
    with locked(run, disk):
        point = point_in(disk)
        plan = plan_truncation(disk, point, run.listener)
        _require_same(env, plan, token)
        _require_consent(run, env, plan)
        backup, saved_bytes = _cut(run, env, disk, plan) if plan.changes else (None, 0)
    return CutDone(point, plan, backup, saved_bytes)


def say_what_went(run: Run, env: str, done: CutDone) -> int:
    """Print messages about a cut; returns the exit code."""
    plan = done.plan
    if done.backup is not None:
        run.messages.notice(f"the removed bytes are saved in {done.backup}", hint=f"jetool undo {env} brings it back")
    if not plan.changes:
        run.messages.notice("nothing follows that point; nothing was changed", file=env)
    if not plan.content.commits:
        return exits.DONE
    word = "would be" if run.dry_run else "was" if plan.content.commits == 1 else "were"
    run.messages.warning(
        f"{plural(plan.content.commits, 'committed transaction')} {word} cut off",
        file=f"{env}/{plan.cut_file.path}",
        lsn=format_lsn(plan.cut.end_lsn),
        found=", ".join(part for part in (_durable_text(plan), _damage_text(plan)) if part) or None,
    )
    return exits.DATA_GIVEN_UP


def _cut(run: Run, env: str, disk: DiskStorage, plan: TruncationPlan) -> tuple[str | None, int]:
    """Cut; returns the backup directory and the number of saved bytes."""
    backup = backup_directory(env, run.backup_dir)
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
    """Refuse a plan that differs from the one that the operator has seen."""
    if token is not None and token != plan.token:
        raise RefusedError(
            "the files have changed since that plan was made",
            file=env,
            expected=token,
            found=plan.token,
            consequence="nothing was changed",
            hint="print the plan again with -n",
        )


def _require_consent(run: Run, env: str, plan: TruncationPlan) -> None:
    """Refuse to remove commits without --yes."""
    if plan.content.commits and not run.yes:
        words = ", ".join(part for part in (vlsns_text(plan), _durable_text(plan), _damage_text(plan)) if part)
        raise RefusedError(
            f"{plural(plan.content.commits, 'committed transaction')} would be cut off",
            file=env,
            lsn=format_lsn(plan.cut.end_lsn),
            found=words or None,
            consequence="nothing was changed",
            hint=_SALVAGE_FIRST if plan.content.after_damage else "preview it with -n; add --yes to do it",
        )


def _durable_text(plan: TruncationPlan) -> str:
    durable = plan.content.durable
    return f"{durable} of them are known to be on a majority of the group" if durable else ""


def _damage_text(plan: TruncationPlan) -> str:
    after = plan.content.after_damage
    return f"{after} of them stand intact after damage in the last file" if after else ""
