"""Recovery as a command: interlock, saved bytes, times of the phases.

Order of a real run: find the end of the log; refuse when committed work stands after it (D-5); lock; open the
environment on a storage that saves every byte before it changes. A preview is the same run on a view whose changes stay
in memory: it takes no lock and makes no file.

The backup directory holds ``saved.journal`` and ``manifest.json``; undo brings back every byte from it, and removes
what was added, as long as nobody has written since.
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from engine.db.environment import Environment
from engine.errors import RefusedError, plural
from engine.events import Listener
from engine.format.lsn import NULL_LSN, format_lsn
from engine.log.files import LOCK_FILE, list_log_files
from engine.log.tail import Tail, find_end, may_lack_a_file
from engine.recovery.result import RecoveryResult
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.storage.overlay import OverlayStorage
from engine.storage.saved_bytes import SavingStorage
from engine.storage.sidecar import DirectoryBeside
from jetool.frame.environments import (
    backup_directory,
    config_of,
    full_backup_named,
    leaving_no_lock_file,
    wait_for_lock,
    with_orders,
    writer_of,
)
from jetool.frame.interrupted import as_before
from jetool.frame.kinds import require_je
from jetool.frame.log_damage import lost_in
from jetool.frame.options import Run

COMMAND: Final = "recover"


class Phase(NamedTuple):
    """A phase of recovery and its time in ms."""

    name: str
    duration_ms: int


class RecoveryRun(NamedTuple):
    """What one run of recovery did.

    Attributes:
        tail: the end of the log before it.
        result: what recovery found.
        phases: in order, with times.
        end_lsn: the end of the log after it.
        checkpoint_end_lsn: the CkptEnd that it wrote; NULL_LSN when none was needed.
        records_given_up: records of users outside transactions that stood after the end of the log.
        vlsns: first and last VLSN afterwards; None for an environment without replication.
        backup: the backup directory; None when nothing was saved.
        saved_bytes: bytes in it.
    """

    tail: Tail
    result: RecoveryResult
    phases: list[Phase]
    end_lsn: int
    checkpoint_end_lsn: int
    records_given_up: int
    vlsns: tuple[int, int] | None
    backup: str | None
    saved_bytes: int


class Stopwatch:
    """A listener that times the phases and passes on what it hears."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._started: list[tuple[str, float]] = []

    def step(self, name: str, done: int, total: int) -> None:
        """A step has advanced; one with a new name begins a phase."""
        if not self._started or self._started[-1][0] != name:
            self._started.append((name, time.monotonic()))
        self._listener.step(name, done, total)

    def phases(self) -> list[Phase]:
        """The phases so far; each lasted until the next began."""
        ends = [start for _, start in self._started[1:]] + [time.monotonic()]
        return [
            Phase(name, round((end - start) * 1000)) for (name, start), end in zip(self._started, ends, strict=True)
        ]


def recover(run: Run, env: str, *, accept_loss: bool) -> RecoveryRun:
    """Recover an environment, or say what recovery would do.

    Arguments:
        run: ``dry_run`` asks for a preview.
        env: its directory.
        accept_loss: go on although committed transactions are cut away.

    Raises:
        RefusedError: committed work stands after a bad entry; the environment is locked.
        JetoolError: as ``Environment``.
    """
    disk = DiskStorage(env)
    require_je(disk)
    # A repair that was interrupted is taken back first, here in memory, so that the preview is right.
    seen = as_before(disk)
    files = list_log_files(seen)
    tail = find_end(seen, files, run.listener)
    if may_lack_a_file(tail, files.files):
        run.messages.warning(
            "the log ends where a file is full, without a checkpoint",
            file=f"{env}/{tail.last_file.path}",
            lsn=format_lsn(tail.end_lsn),
            consequence="a file after it may be lost, with what was committed in it; recovery goes on without it",
            hint="look for it in backups before this node writes on; jetool diff compares with a replica",
        )
    # Before the lock and the backup directory: a refusal leaves no trace (D-5).
    if tail.commits_at_risk and not accept_loss:
        raise _interlock(env, tail)
    if run.dry_run:
        # Recovery itself does without files that were written before the checkpoint, whoever has deleted them.
        lost_in(run, seen, files)
        return _run(run, OverlayStorage(seen), tail, None, accept_loss)
    wait_for_lock(run, disk)
    with leaving_no_lock_file(disk):
        return _recover_for_good(run, env, disk, tail, accept_loss)


def _recover_for_good(run: Run, env: str, disk: DiskStorage, tail: Tail, accept_loss: bool) -> RecoveryRun:
    if writer_of(disk) is None:
        # The lock file is no data: made first, it is not among what undo takes back.
        disk.open_rw(LOCK_FILE, create=True).close()
    backup = backup_directory(run, env)
    if backup is None:
        return _run(run, disk, tail, None, accept_loss)
    saving = SavingStorage(disk, backup, COMMAND)
    with full_backup_named(backup):
        try:
            done = _run(run, saving, tail, backup, accept_loss)
        except BaseException:
            saving.interrupt()
            raise
        # Only after the environment was closed: its last checkpoint is part of what undo takes back.
        saving.finish({})
        return done


def _run(run: Run, storage: Storage, tail: Tail, backup: DirectoryBeside | None, accept_loss: bool) -> RecoveryRun:
    watch = Stopwatch(run.listener)
    # The engine looks again, under the lock.
    config = with_orders(run, storage, config_of(run, halt_on_commit_after_bad=not accept_loss))
    with Environment(storage, config, watch) as env:
        engine = env.engine
        result, index, end = engine.recovery, engine.vlsn_index, engine.end_lsn
        checkpoint = engine.checkpointer.last_end
        records = engine.records_after_damage
        vlsns = None if index is None else (index.range.first, index.range.last)
    saved = storage.saved_bytes if isinstance(storage, SavingStorage) else 0
    return RecoveryRun(
        tail, result, watch.phases(), end, NULL_LSN if checkpoint == result.ckpt_end_lsn else checkpoint,
        records, vlsns,
        backup.root if backup is not None and saved else None, saved,
    )  # fmt: skip


def _interlock(env: str, tail: Tail) -> RefusedError:
    damage = tail.damage
    lsn = tail.end_lsn if damage is None else damage.lsn
    after = tail.after
    stand = plural(tail.commits_at_risk, "committed transaction stands", "committed transactions stand")
    return RefusedError(
        f"{stand} after a bad entry",
        file=f"{env}/{tail.last_file.path if damage is None else damage.path}",
        lsn=format_lsn(lsn),
        found=f"{plural(tail.given_up_bytes, 'byte')} from there to the end of the log; {after.in_words()}",
        consequence="recovery would cut them away, as JE does without a word; nothing was changed",
        hint=f"restore the file from a copy, or give them up: jetool recover {env} --accept-loss (the bytes are saved)",
        figures={
            "commits_after": after.commits,
            "commits_synced": after.synced,
            "commits_acknowledged": after.acknowledged,
            "torn_write": int(after.torn),
        },
    )
