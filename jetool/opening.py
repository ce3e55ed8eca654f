"""Environments as commands open them.

* Readers recover in memory: no lock, no file, not one byte changed; what the log says at that moment is what they show.
  A live writer is named, since what it has not logged yet cannot be seen.
* Writers hold byte 0 of ``je.lck``, wait for it as long as ``--lock-timeout`` says, and save what they overwrite.
"""

from __future__ import annotations

from typing import Any, Final

from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import LOCK_FILE, Environment
from engine.errors import UsageError
from engine.format.lsn import format_lsn
from engine.log.tail import Tail
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from jetool import exits
from jetool.options import Run

WRITER_BYTE: Final = 0

READ_EXITS: Final = {
    exits.REFUSED: "a restore marker stands in the environment: it must not be opened",
    exits.NOT_FOUND: "no environment, no database of the name",
    exits.UNSUPPORTED: "a log version that this program does not read",
    exits.INCOMPLETE: "damage where recovery has to read, or a file that cannot be read",
}


def open_to_read(run: Run, env: str) -> Environment:
    """Recover an environment in memory.

    Arguments:
        run: gets warnings about what cannot be seen.
        env: its directory.

    Raises:
        JetoolError: as ``Environment``.
    """
    storage = DiskStorage(env)
    holder = writer_of(storage)
    found = Environment(storage, EnvironmentConfig(read_only=True), run.listener)
    if holder is not None:
        run.messages.notice(
            f"process {holder or 'unknown'} has the environment open for writing",
            consequence="what it has not logged yet is not seen",
        )
    if found.tail is not None:
        warn_of_tail(run, env, found.tail)
    return found


def writer_of(storage: Storage) -> int | None:
    """The pid of the process that has an environment open for writing, 0 for an unknown one; None for nobody."""
    return storage.lock_holder(LOCK_FILE, WRITER_BYTE) if storage.stat(LOCK_FILE) is not None else None


def warn_of_tail(run: Run, env: str, tail: Tail) -> None:
    """Say what stands behind the end of the log."""
    if not tail.cut_bytes:
        return
    lost = f"; {tail.commits_at_risk} committed transactions are among them" if tail.commits_at_risk else ""
    say = run.messages.warning if tail.commits_at_risk else run.messages.notice
    say(
        "the log ends before its last file does",
        file=f"{env}/{tail.last_file.path}",
        lsn=format_lsn(tail.end_lsn),
        consequence=f"{tail.cut_bytes} bytes behind it are not seen{lost}",
        hint=f"jetool verify --tail {env}",
    )


def require_byte_order(db: Database, options: dict[str, Any]) -> None:
    """Refuse ranges where keys are not in the order of their bytes.

    Raises:
        UsageError: one of the options is set, and the order is that of a Java class.
    """
    named = [f"--{name}" for name, value in options.items() if value is not None]
    if db.state.order.comparator is not None and named:
        raise UsageError(
            f"the keys of {db.name!r} are not in the order of their bytes",
            expected="a database without a comparator",
            found=db.state.order.comparator,
            hint=f"leave out {', '.join(named)}",
        )
