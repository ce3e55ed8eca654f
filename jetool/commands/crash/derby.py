"""``crash`` on Derby databases and page stores."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from engine.derby import crash_drill
from engine.derby.crash_drill import LogPlace, RecoveryOperation
from engine.derby.database import NEWEST_RECOVERED, DerbyDatabase
from engine.derby.format import instant
from engine.derby.recovery.manager import unlock
from engine.errors import NotFoundError, RefusedError, UsageError
from engine.storage.base import Storage
from engine.storage.crash import CrashMode
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from engine.storage.saved_bytes import SavingStorage
from jetool.commands.crash.derby_rows import DerbyCrash, RecoveryCrash, text_line
from jetool.commands.crash.rows import CrashSummary
from jetool.commands.recover.derby_saved_bytes import backup_of
from jetool.frame import exits
from jetool.frame.options import Run

_NUMBERED: Final = re.compile(r"(entry|type|step|write):([A-Za-z_.-]+|\d+)(?::(\d+))?")


def crash_database(run: Run, env: str, place: str, mode: str, seed: int, out: str | None, *, in_place: bool) -> int:
    """Put a copy of a database, or the database itself, into the state after a crash at a place.

    Arguments:
        run: the run.
        env: the directory.
        place: ``FILE,POSITION``, ``end``, ``entry:N``, ``type:NAME[:n]``, ``write:N`` or ``step:NAME[:n]``.
        mode: what is left.
        seed: seed for the choice of torn lengths and of surviving writes.
        out: directory of the copy.
        in_place: damage the database itself, with its old bytes saved.

    Raises:
        UsageError: the mode is unknown, or the text is not a place. NotFoundError: the place does not exist.
        RefusedError: the directory for the copy is not empty; in place without ``--yes``.
    """
    disk = DiskStorage(env)
    _require_readable(DerbyDatabase(disk))
    files = crash_drill.files_of(disk)
    found = find_place(files, place, env)
    modes = crash_drill.LOG_MODES if isinstance(found, LogPlace) else crash_drill.WORK_MODES
    if mode not in modes:
        raise UsageError(f"there is no such mode at {place}", expected=" or ".join(modes), found=mode)
    target = env if in_place else out or os.path.normpath(env) + ".crashed"
    operation: int | None
    if isinstance(found, LogPlace):
        image = MemoryStorage(files, root=target)
        left = crash_drill.crash_in_log(image, found, mode, seed)
        at, operation, what = found.record.instant, None, found.name
    else:
        image = crash_drill.crash_in_work(files, found.number, CrashMode(mode), seed)
        left = crash_drill.CrashDamage(0, 0, tuple(sorted(files.keys() - image.contents().keys())))
        at, operation, what = 0, found.number, found.what
    if not run.dry_run:
        _put(run, disk, image, target, in_place=in_place)
    with run.out.stream(DerbyCrash, RecoveryCrash, line=text_line) as stream:
        stream.row(
            DerbyCrash(
                environment=target,
                instant=at,
                operation=operation,
                what=what,
                mode=mode,
                seed=seed,
                cut_bytes=left.cut_bytes,
                changed_bytes=left.changed_bytes,
                removed=left.removed,
                dry_run=run.dry_run,
            )
        )
        stream.end(CrashSummary(cases=1, failed=0, compared=0))
    return exits.DONE


def check_database(run: Run, env: str, mode: str, seed: int, count: int | None) -> int:
    """Interrupt recovery, in memory, at ``count`` or all of its operations; recover each time and compare.

    Raises:
        UsageError: the matrix has no such mode.
    """
    if mode not in crash_drill.WORK_MODES:
        raise UsageError("the matrix has no such mode", expected=" or ".join(crash_drill.WORK_MODES), found=mode)
    disk = DiskStorage(env)
    _require_readable(DerbyDatabase(disk))
    files = crash_drill.files_of(disk)
    operations = crash_drill.operations_of(files)
    if count is not None and count < len(operations):
        # The same seed gives the same choice, so that a failure can be reproduced.
        operations = sorted(random.Random(seed).sample(operations, count))
    failed = 0
    with run.out.stream(DerbyCrash, RecoveryCrash, line=text_line) as stream:
        cases = crash_drill.check_operations(files, operations, CrashMode(mode), seed)
        for done, case in enumerate(cases, 1):
            failed += case.problem is not None
            stream.row(
                RecoveryCrash(
                    operation=case.operation.number,
                    what=case.operation.what,
                    step=case.operation.step,
                    mode=mode,
                    passed=case.problem is None,
                    problem=case.problem,
                )
            )
            run.listener.step("crash", done, len(operations))
        stream.end(CrashSummary(cases=len(operations), failed=failed, compared=len(operations)))
    return exits.FINDINGS if failed else exits.DONE


def _require_readable(database: DerbyDatabase) -> None:
    """Raise if recovery would refuse the database: it is encrypted, cannot be started, or is of an untested release."""
    database.require_clear()
    database.require_start()
    database.require_version(database.controls(), NEWEST_RECOVERED)


def find_place(files: dict[str, bytes], place: str, env: str) -> LogPlace | RecoveryOperation:
    """The place given by ``--at``. UsageError: the text is not a place; NotFoundError: the log has no such place."""
    found = _NUMBERED.fullmatch(place)
    kind, name, nth = (found[1], found[2], found[3]) if found else ("end" if place == "end" else "at", place, None)
    if kind in ("entry", "write") and not name.isdigit():
        raise UsageError(f"{place!r} names no place", expected=f"{kind}:N", found=place)
    chosen: Sequence[LogPlace | RecoveryOperation]
    if kind in ("write", "step"):
        operations = crash_drill.operations_of(files)
        if kind == "write":
            # Numbers start at 1; index arithmetic alone would accept 0 as the last record.
            chosen = operations[int(name) - 1 : int(name)] if int(name) else []
        else:
            chosen = _numbered([one for one in operations if one.step == name], nth)
    else:
        places = crash_drill.log_places(DerbyDatabase(MemoryStorage(files)))
        if kind == "entry":
            chosen = places[int(name) - 1 : int(name)] if int(name) else []
        elif kind == "type":
            chosen = _numbered([one for one in places if one.name.lower() == name.lower()], nth)
        else:
            # ``end`` matches every record; the last one is chosen below.
            at = instant.NONE if kind == "end" else instant.parse(f"({place.strip('()')})")
            chosen = [one for one in places if at in (instant.NONE, one.record.instant)]
    if not chosen:
        raise NotFoundError(
            f"there is no place {place!r}",
            file=env,
            expected="a record after the last checkpoint, or an operation or step of recovery",
            consequence="records before the checkpoint are on the pages already",
            hint=f"jetool dump-log {env} --from ckpt lists the records; jetool crash {env} --matrix all the operations",
        )
    # Without a number: the last record of its kind, nearest to the end of the log.
    return chosen[-1]


def _numbered(found: Sequence[LogPlace | RecoveryOperation], nth: str | None) -> Sequence[LogPlace | RecoveryOperation]:
    if nth is None:
        return found
    return found[int(nth) - 1 : int(nth)] if int(nth) else []


def _put(run: Run, disk: DiskStorage, image: MemoryStorage, target: str, *, in_place: bool) -> None:
    """Write the remaining files into a new directory or over the database."""
    if not in_place:
        copy = DiskStorage(target)
        # Never write into a directory with files, because an older copy would be mixed with this one.
        if copy.stat() is not None and copy.names():
            raise RefusedError(
                "the directory for the copy is not empty",
                file=target,
                hint="name another directory with --out, or remove it",
            )
        for directory in {str(Path(path).parent) for path in image.contents()}:
            Path(target, directory).mkdir(parents=True, exist_ok=True)
        _write(copy, image)
        return
    database = DerbyDatabase(disk)
    if not run.dry_run:
        database.wait_unlocked(run.lock_timeout_s)
    lock = database.lock()
    try:
        with backup_of(disk, run.backup_dir, dry_run=False) as backup:
            if backup is None:
                _write(disk, image)
                return
            # Old bytes are saved before they are overwritten, so that undo can restore them.
            saving = SavingStorage(disk, backup, "crash")
            try:
                _write(saving, image)
            except BaseException:
                # The marker stays, and the next command undoes the incomplete crash.
                saving.interrupt()
                raise
            saving.finish({})
            hint = f"jetool undo {target} --backup-dir {backup.root}"
            run.messages.notice("the old bytes were saved; undo reverts the crash", file=backup.root, hint=hint)
    finally:
        unlock(disk, lock)


def _write(storage: Storage, image: MemoryStorage) -> None:
    """Make a directory equal to an image: write the files that differ, and remove the others."""
    wanted = image.contents()
    present = crash_drill.files_of(storage)
    # Remove files that did not exist at the crash, because recovery would read them.
    for path in sorted(present.keys() - wanted.keys()):
        storage.remove(path)
    for path, data in sorted(wanted.items()):
        # Lock files stay as they are, because this process holds them.
        if present.get(path) == data or path.endswith(".lck"):
            continue
        file = storage.open_rw(path, create=True)
        try:
            file.write(0, data)
            file.truncate(len(data))
            file.sync()
        finally:
            file.close()
    # Directory entries must be durable too: created and removed files are part of the crash.
    for directory in ("log", "seg0", ""):
        storage.sync_directory(directory)
