"""``jetool clean``: run the log cleaner offline."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

import click

from engine.cleaner.cleaner import Cleaner
from engine.cleaner.offline import STOPPED, CleanedFile, Goal, OfflineCleaner, delete_reserved
from engine.cleaner.selection import CleaningLimits
from engine.errors import UsageError
from engine.log.files import list_log_files, log_file_name
from engine.storage.disk import DiskStorage
from jetool.commands.clean.reactivation import COMMAND, put_back
from jetool.commands.clean.rows import CleaningRun, cleaning_run
from jetool.frame import exits
from jetool.frame.command import Outputs, command, environment
from jetool.frame.environments import WRITE_EXITS, config_of
from jetool.frame.options import Run
from jetool.frame.params import PercentType, SizeType
from jetool.frame.repairs import repairing

_MOST_PERCENT = 90


@command(
    COMMAND,
    outputs=lambda: Outputs("document", (CleaningRun,)),
    features=("fields", "progress", "lock", "cache", "order", "write"),
    examples=(
        ("Which files would be cleaned, and what that would free", "jetool clean /data/env -n"),
        ("Free 5 GiB; deleted files go to another disk", "jetool clean /data/env --free 5GiB --backup-dir /backup/env"),
        (
            "Clean until 60 per cent is in use, without saving bytes",
            "jetool clean /data/env --target 60% --backup-dir none",
        ),
        ("Which reserved files would go to free 2 GiB", "jetool clean /data/env --reserved --free 2GiB -n"),
        ("Reserved files that are still in use, before they are deleted", "jetool clean /data/env --reactivate -n"),
    ),
    exits={
        exits.DONE: "cleaned as far as worthwhile, or as far as requested",
        exits.FINDINGS: "cleaned, but some files had to be skipped: damage, an unknown key order; or --reactivate "
        "found damage in the trees",
        **WRITE_EXITS,
        exits.UNSUPPORTED: "a log version that this program does not read, or an environment that preserves record "
        "versions",
        exits.INCOMPLETE: "there is no room for the records to migrate, or a file cannot be read or written",
        exits.INTERRUPTED: "interrupted; the current file was finished, and the cleaned files are deleted",
    },
)
@environment
@click.option(
    "--target",
    type=PercentType(1, _MOST_PERCENT),
    metavar="PERCENT",
    help="Clean until this share of the log is in use [default: je.cleaner.minUtilization, 50%].",
)
@click.option("--free", type=SizeType(), metavar="SIZE", help="Clean until this much space is freed, such as 5GiB.")
@click.option("--max-files", type=click.IntRange(min=1), metavar="N", help="Clean at most N files.")
@click.option(
    "--reserved", is_flag=True, help="Clean nothing: delete reserved files, the oldest first, all or until --free."
)
@click.option(
    "--reactivate", is_flag=True, help="Clean nothing: put reserved files that the trees need back into the live log."
)
def clean(
    run: Run, env: str, target: int | None, free: int | None, max_files: int | None, reserved: bool, reactivate: bool
) -> int:
    """Clean the log: log live records again, and delete the files that held them.

    Files are chosen by the rules of JE's cleaner, the least used first; the newest files (je.cleaner.minAge) are
    skipped. The environment is recovered first. Deleted files are saved in --backup-dir or in a new directory beside
    the environment, and jetool undo restores everything; --backup-dir none frees the space immediately. With -n the
    cleaner runs in memory only. SIGINT ends the run after the current file. Damaged files are skipped and reported.

    --reserved is for a full disk: nodes of a group keep cleaned files, to feed replicas. As with
    DbDeleteReservedFiles, whole files go until SIZE is freed, and -n lists them. Unlike it, files whose VLSNs the VLSN
    index has to keep (je.rep.minVLSNIndexSize) stay. Saved bytes need room: --backup-dir on another disk, or none. A
    stand-alone environment loses all reserved files whenever a writer opens it.

    --reactivate is for reserved files into which records or nodes still lead (JE-SPACE-005): they would be deleted, and
    the records lost. It walks over all trees and removes the records of such files, as JE 25.3 does with
    je.env.autoReservedFileRepair. The next run of the cleaner logs what leads into them again.
    """
    if reactivate:
        if reserved or target is not None or free is not None or max_files is not None:
            raise UsageError("--reactivate cleans and deletes nothing", hint="leave out the other options")
        return put_back(run, env)
    if reserved and (target is not None or max_files is not None):
        raise UsageError("--reserved cleans no file", hint="leave out --target and --max-files; --free limits it")
    # Opening deletes reserved files that no replica needs.
    sizes = {file.number: file.size_bytes for file in list_log_files(DiskStorage(env)).files} if reserved else {}
    disk_is_shared = run.backup_dir != "none" and not run.dry_run
    stop = _StopRequest()
    with repairing(run, env, COMMAND, config_of(run, run_checkpointer=False)) as repair, stop:
        engine = repair.environment.engine
        cleaner = engine.cleaner
        assert cleaner is not None
        if reserved:
            report, kept, unusable = delete_reserved(cleaner, free, sizes), cleaner.kept(), {}
        else:
            goal = Goal(_limits(cleaner, target), free, max_files, copies=int(disk_is_shared))
            work = OfflineCleaner(
                cleaner, engine.checkpointer, goal, stop=stop.wanted, heard=_Progress(run), listener=run.listener
            )
            report = work.run()
            kept, unusable = cleaner.kept(goal.limits), dict(cleaner.states.unusable)
    run.out.document(
        cleaning_run(report, kept, backup=repair.backup, saved_bytes=repair.saved_bytes, dry_run=run.dry_run)
    )
    for number, reason in unusable.items():
        run.messages.warning(f"file {log_file_name(number)} was left alone: {reason}", file=env)
    if report.why == STOPPED:
        return exits.INTERRUPTED
    return exits.FINDINGS if unusable else exits.DONE


def _limits(cleaner: Cleaner, target: int | None) -> CleaningLimits | None:
    return None if target is None else cleaner.limits._replace(min_utilization=target)


class _Progress:
    """Reports the progress of the run in bytes read."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._read = 0

    def __call__(self, found: CleanedFile) -> None:
        self._read += found.report.total_bytes
        self._run.listener.step("clean", self._read, 0)


class _StopRequest:
    """Handles SIGINT: the first one ends the run after the current file, the second one immediately."""

    def __init__(self) -> None:
        self._asked = False
        self._before: Any = None

    def wanted(self) -> bool:
        """Whether somebody has asked."""
        return self._asked

    def __enter__(self) -> _StopRequest:
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _hear(self, _: int, __: FrameType | None) -> None:
        self._asked = True
        # The previous handler handles a second interrupt.
        signal.signal(signal.SIGINT, self._before)
