"""``jetool crash``: simulate a crash."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Final

import click

from engine.errors import RefusedError, UsageError
from engine.inspect.crash_matrix import CommittedModel, eligible_points, run_case
from engine.inspect.crash_points import MODES, CrashEffect, CrashPoint, apply_crash, crash_points
from engine.log.files import LogFiles, list_log_files
from engine.rescue.repair.access import backup_directory
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.storage.overlay import OverlayStorage
from engine.storage.saved_bytes import SavingStorage
from jetool.commands.crash import places
from jetool.commands.crash.rows import CrashCaseRow, CrashSummary, SimulatedCrash, text_line
from jetool.frame import exits, interrupted
from jetool.frame.command import Outputs, command, environment
from jetool.frame.environments import WRITE_EXITS
from jetool.frame.options import Run

_MATRIX_MODES: Final = ("lost-tail", "torn-write", "no-fsync")


def _outputs() -> Outputs:
    from jetool.commands.crash import derby_rows

    derby = (derby_rows.DerbyCrash, derby_rows.RecoveryCrash)
    return Outputs("stream", (SimulatedCrash, CrashCaseRow, *derby), CrashSummary, derby)


def _check(run: Run, *, env: str, in_place: bool, **_: object) -> None:
    if in_place and not run.yes and not run.dry_run:
        raise RefusedError(
            "--in-place damages the environment itself", file=env, hint="add --yes, or leave out --in-place for a copy"
        )


@command(
    "crash",
    check=_check,
    outputs=_outputs,
    features=("fields", "progress", "write"),
    examples=(
        ("A crash inside the last checkpoint, on a copy", "jetool crash /data/env --at step:checkpoint --out /tmp/d"),
        ("A torn last entry", "jetool crash /data/env --mode torn-write --seed 7 --out /tmp/d"),
        ("Crash at 200 places, recover, compare", "jetool crash /data/env --matrix 200 --mode lost-tail"),
    ),
    exits={
        **WRITE_EXITS,
        exits.DONE: "the crash was simulated, or all cases of the matrix passed",
        exits.FINDINGS: "a case of the matrix failed",
        exits.REFUSED: "the directory for the copy is not empty; --in-place without --yes, or beside a writer",
        exits.NOT_FOUND: "no environment, no such place in the log",
    },
)
@environment
@click.option(
    "--at",
    "place",
    default="end",
    metavar="PLACE",
    help="Place: 0xFILE/0xOFFSET, end, entry:N, type:NAME[:n], or step:NAME[:n] with a step of "
    + ", ".join(places.STEPS)
    + "; without n the last.  [default: end]",
)
@click.option(
    "--mode",
    type=click.Choice(MODES),
    default="lost-tail",
    help="The state that the crash leaves.  [default: lost-tail]",
)
@click.option("--seed", type=int, default=0, metavar="N", help="Seed of random lengths and places.  [default: 0]")
@click.option("--out", metavar="DIR", help="Directory of the copy.  [default: ENV.crashed]")
@click.option("--in-place", is_flag=True, help="Damage ENV itself; needs --yes.")
@click.option("--matrix", metavar="N|all", help="Crash at N places (or all) in memory, recover and compare.")
def crash(
    run: Run, env: str, place: str, mode: str, seed: int, out: str | None, in_place: bool, matrix: str | None
) -> int:
    """Copy the environment, and put the copy into the state after a crash in which the entry at PLACE did not reach the
    disk.

    Modes: lost-tail cuts before the entry, torn-write inside it, no-fsync after the last CkptEnd before it; bit-flip,
    zero-page and missing-file damage the entry, its page or its file. --in-place saves the old bytes first, and jetool
    undo restores them.

    --matrix crashes in memory at many places, recovers each time, and compares the result with the committed records of
    the log.

    In a Derby database PLACE is a record after the last checkpoint (FILE,POSITION, end, entry:N, type:NAME[:n]), or a
    place within recovery and its checkpoint: write:N, its N-th write or sync, or step:NAME[:n]. --matrix interrupts
    recovery at each of its writes and syncs, and compares the result with uninterrupted recovery.
    """
    disk = DiskStorage(env)
    files = list_log_files(disk)
    points = crash_points(disk, files)
    if matrix is not None:
        return _matrix(run, disk, files, points, mode, seed, places.case_count(matrix))
    point = places.find_point(points, place)
    target = env if in_place else out or os.path.normpath(env) + ".crashed"
    # Only --in-place writes into the environment, so only it takes the lock.
    if in_place and not run.dry_run:
        effect = _in_place(run, env, disk, lambda storage: apply_crash(storage, files, point, mode, seed))
    else:
        copied = OverlayStorage(disk) if run.dry_run else places.copy_environment(disk, files, target)
        effect = apply_crash(copied, files, point, mode, seed)
    with run.out.stream(SimulatedCrash, CrashCaseRow, line=text_line) as stream:
        stream.row(
            SimulatedCrash(
                environment=target,
                lsn=point.lsn,
                type=point.type_name,
                mode=mode,
                seed=seed,
                end_lsn=effect.end_lsn,
                cut_bytes=effect.cut_bytes,
                changed_bytes=effect.changed_bytes,
                removed=list(effect.removed),
                dry_run=run.dry_run,
            )
        )
        stream.end(CrashSummary(cases=1, failed=0, compared=0))
    return exits.DONE


def _in_place(run: Run, env: str, disk: DiskStorage, damage: Callable[[Storage], CrashEffect]) -> CrashEffect:
    """Damage the environment itself, after saving its bytes."""
    backup = backup_directory(env, run.backup_dir)
    # No writer may append to files while they are being cut.
    with interrupted.locked(run, disk):
        if backup is None:
            return damage(disk)
        saving = SavingStorage(disk, backup, "crash")
        try:
            effect = damage(saving)
        except BaseException:
            # The marker of the repair stays, so that the next command undoes the incomplete crash.
            saving.interrupt()
            raise
        saving.finish({})
        run.messages.notice(f"the old bytes were saved in {backup.root}", hint=f"jetool undo {env} reverts it")
        return effect


def _matrix(
    run: Run, storage: Storage, files: LogFiles, points: list[CrashPoint], mode: str, seed: int, count: int | None
) -> int:
    if mode not in _MATRIX_MODES:
        raise UsageError("the matrix has no such mode", expected=" or ".join(_MATRIX_MODES), found=mode)
    # The expected records are read from the log itself, because recovery is under test.
    model = CommittedModel(storage, files)
    eligible = eligible_points(points, model, mode)
    if count is not None and count < len(eligible):
        # The same seed gives the same places, so that a failure can be reproduced.
        eligible = sorted(random.Random(seed).sample(eligible, count))
    failed = compared = 0
    with run.out.stream(SimulatedCrash, CrashCaseRow, line=text_line) as stream:
        for number, point in enumerate(eligible):
            # Each case has its own random choices, which still depend only on the seed.
            case = run_case(storage, files, model, point, mode, seed + number)
            failed += not case.passed
            compared += case.compared
            stream.row(
                CrashCaseRow(
                    lsn=point.lsn,
                    type=point.type_name,
                    mode=mode,
                    passed=case.passed,
                    compared=case.compared,
                    records=case.records,
                    problem=case.problem or None,
                )
            )
            run.listener.step("crash", number + 1, len(eligible))
        stream.end(CrashSummary(cases=len(eligible), failed=failed, compared=compared))
    return exits.FINDINGS if failed else exits.DONE
