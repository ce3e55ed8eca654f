"""Recovery that refuses to lose commits, saves overwritten bytes, and can be previewed.

JE recovers whenever it opens an environment: it cuts the log at the first bad entry, whatever follows. Here recovery
has two steps. ``plan_recovery`` finds the end of the log and changes nothing. ``recover`` refuses if committed
transactions follow that end (D-5), saves every byte before changing it, and opens the environment; a dry run does this
on a view in memory.

The backup directory holds ``saved.journal`` and ``manifest.json``. ``engine.rescue.repair.undo`` restores every byte
from it, and removes added bytes, unless another process has written since.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import RefusedError, plural
from engine.events import SILENT, Listener
from engine.format.lsn import NULL_LSN, format_lsn
from engine.log.files import LOCK_FILE, LogFiles, list_log_files
from engine.log.tail import Tail, find_end, may_lack_a_file
from engine.recovery.result import RecoveryResult
from engine.rescue.repair.access import (
    backup_directory,
    full_backup_named,
    leaving_no_lock_file,
    wait_for_writer,
    writer_locked,
    writer_of,
)
from engine.rescue.repair.settlement import SettledRepair, as_before, pending_repair, settle
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.storage.overlay import OverlayStorage
from engine.storage.saved_bytes import SavingStorage
from engine.storage.sidecar import DirectoryBeside

COMMAND: Final = "recover"
DEFAULT_CONFIG: Final = EnvironmentConfig()


class RepairOptions(NamedTuple):
    """Options of a repair.

    Attributes:
        dry_run: do it in memory, without locks, files or changes.
        backup_dir: as ``access.backup_directory``.
        lock_timeout_s: how long to wait while another process has the environment open for writing.
    """

    dry_run: bool = False
    backup_dir: str | None = None
    lock_timeout_s: float = 0.0


DEFAULT_OPTIONS: Final = RepairOptions()


class RecoveryPlan(NamedTuple):
    """The end of a log, before recovery.

    Attributes:
        env: the directory of the environment.
        seen: the environment as recovery would find it, with an interrupted repair undone in memory.
        files: the log files.
        tail: where the log ends, and the bytes after it.
        may_lack_a_file: the log ends without a checkpoint where a file is full, so a following file may be lost.
    """

    env: str
    seen: Storage
    files: LogFiles
    tail: Tail
    may_lack_a_file: bool

    def require_no_loss(self) -> None:
        """Refuse a recovery that loses committed transactions.

        Raises:
            RefusedError: committed transactions follow a bad entry.
        """
        if self.tail.commits_at_risk:
            raise _interlock(self.env, self.tail)


class Phase(NamedTuple):
    """A phase of recovery and its time in ms."""

    name: str
    duration_ms: int


class RecoveryRun(NamedTuple):
    """The result of one run of recovery.

    Attributes:
        tail: the end of the log before it.
        result: what recovery found.
        phases: phases in order, with times.
        end_lsn: the end of the log after it.
        checkpoint_end_lsn: the CkptEnd that recovery wrote; NULL_LSN if no checkpoint was needed.
        records_given_up: number of users' non-transactional records after the end of the log.
        vlsns: first and last VLSN afterwards; None without replication.
        backup: the backup directory; None if nothing was saved.
        saved_bytes: bytes in it.
        settled: an interrupted repair that was undone first; None if no repair was interrupted.
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
    settled: SettledRepair | None = None


class Stopwatch:
    """A listener that times the phases and passes all calls on."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._started: list[tuple[str, float]] = []

    def step(self, name: str, done: int, total: int) -> None:
        """A step has advanced; a new name begins a phase."""
        if not self._started or self._started[-1][0] != name:
            self._started.append((name, time.monotonic()))
        self._listener.step(name, done, total)

    def phases(self) -> list[Phase]:
        """The phases so far; each lasted until the next began."""
        ends = [start for _, start in self._started[1:]] + [time.monotonic()]
        return [
            Phase(name, round((end - start) * 1000)) for (name, start), end in zip(self._started, ends, strict=True)
        ]


def plan_recovery(env: str, listener: Listener = SILENT) -> RecoveryPlan:
    """Find the end of a log; nothing is changed.

    Arguments:
        env: the directory of a JE environment.

    Raises:
        NotFoundError: no environment. DamageError, UnsupportedError: as ``find_end``.
    """
    seen = as_before(DiskStorage(env))
    files = list_log_files(seen)
    tail = find_end(seen, files, listener)
    return RecoveryPlan(env=env, seen=seen, files=files, tail=tail, may_lack_a_file=may_lack_a_file(tail, files.files))


def recover(
    plan: RecoveryPlan,
    options: RepairOptions = DEFAULT_OPTIONS,
    *,
    accept_loss: bool = False,
    config: EnvironmentConfig = DEFAULT_CONFIG,
    look: Callable[[Environment], None] | None = None,
    listener: Listener = SILENT,
) -> RecoveryRun:
    """Recover an environment, or show in memory what recovery would do.

    An interrupted repair is undone first; otherwise undoing this recovery would bring back its half-done state.

    Arguments:
        accept_loss: continue although committed transactions are cut off.
        config: how the environment is opened.
        look: called in a dry run with the recovered environment, before it is closed.
        listener: is called with the steps of recovery.

    Raises:
        RefusedError: committed transactions follow a bad entry, or another process has the environment open.
        JetoolError: as ``Environment``.
    """
    # Test before the lock and the backup directory are created, so that a refusal leaves no trace (D-5).
    if not accept_loss:
        plan.require_no_loss()
    # The engine repeats this test under the lock.
    config = replace(config, halt_on_commit_after_bad=not accept_loss)
    if options.dry_run:
        return _run(OverlayStorage(plan.seen), plan.tail, None, config, listener, look)
    disk = DiskStorage(plan.env)
    settled = None
    if pending_repair(plan.env) is not None:
        settled = settle(plan.env, partial(writer_locked, timeout_s=options.lock_timeout_s))
    wait_for_writer(disk, options.lock_timeout_s)
    with leaving_no_lock_file(disk):
        if writer_of(disk) is None:
            # The lock file is created first, so that undo does not remove it: it is not data.
            disk.open_rw(LOCK_FILE, create=True).close()
        backup = backup_directory(plan.env, options.backup_dir)
        if backup is None:
            return _run(disk, plan.tail, None, config, listener)._replace(settled=settled)
        saving = SavingStorage(disk, backup, COMMAND)
        with full_backup_named(backup):
            try:
                done = _run(saving, plan.tail, backup, config, listener)
            except BaseException:
                saving.interrupt()
                raise
            # Finish after the environment is closed: the checkpoint of the close is part of the changes that undo
            # reverts.
            saving.finish({})
            return done._replace(settled=settled)


def _run(
    storage: Storage,
    tail: Tail,
    backup: DirectoryBeside | None,
    config: EnvironmentConfig,
    listener: Listener,
    look: Callable[[Environment], None] | None = None,
) -> RecoveryRun:
    watch = Stopwatch(listener)
    with Environment(storage, config, watch) as env:
        engine = env.engine
        result, index, end = engine.recovery, engine.vlsn_index, engine.end_lsn
        checkpoint = engine.checkpointer.last_end
        records = engine.records_after_damage
        vlsns = None if index is None else (index.range.first, index.range.last)
        if look is not None:
            look(env)
    saved = storage.saved_bytes if isinstance(storage, SavingStorage) else 0
    return RecoveryRun(
        tail=tail,
        result=result,
        phases=watch.phases(),
        end_lsn=end,
        checkpoint_end_lsn=NULL_LSN if checkpoint == result.ckpt_end_lsn else checkpoint,
        records_given_up=records,
        vlsns=vlsns,
        backup=backup.root if backup is not None and saved else None,
        saved_bytes=saved,
    )


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
