"""Network restore: a node's log files replaced by copies of the master's (R-SYNC-21).

A node begins a new log file and sends all files before it (``engine.rep.services.copies``). The other, closed
meanwhile:

1. receives them into ``restore/`` (``engine.rep.member.network_restore``), and fsyncs them;
2. writes the marker ``7fffffff.jdb`` (RestoreRequired), so that neither JE nor jetool opens a half-replaced log;
3. moves its own files into ``replaced/`` (``replaced.1/`` ... if that exists), where they stay;
4. moves the new files to their places, and removes the marker.

A crash before step 2 leaves the old environment unchanged. After a later crash the environment refuses to be opened,
and the next network restore begins again with step 1: nothing is lost, since nothing was removed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from engine.db.config import EnvironmentConfig
from engine.errors import NotFoundError
from engine.events import Listener
from engine.format.entry.markers import RestoreRequired
from engine.log.files import list_log_files
from engine.log.marker import MARKER, write_marker
from engine.storage.base import Storage

STAGING: Final = "restore"
REPLACED: Final = "replaced"


def install_files(storage: Storage, now_ms: int, listener: Listener) -> None:
    """Replace the environment's own files by received ones (steps 2 to 4).

    Arguments:
        storage: the directory of the closed environment.
        now_ms: for the marker.
    """
    # Write the marker before the first move: no process may open a half-replaced log.
    write_marker(storage, RestoreRequired("NETWORK_RESTORE", now_ms, ""))
    listener.step("restore replace", 0, 0)
    own = _log_paths(storage)
    kept = _new_directory(storage) if own else ""
    for path in own:
        _move(storage, path, f"{kept}/{path}")
    listener.step("restore install", 0, 0)
    for path in _log_paths(storage, STAGING):
        _move(storage, path, path.removeprefix(f"{STAGING}/"))
    # Remove the marker last, when every move is durable.
    storage.remove(MARKER)
    storage.sync_directory()


def _log_paths(storage: Storage, under: str = "") -> list[str]:
    """Log files below a directory, without the marker."""
    prefix = f"{under}/" if under else ""
    found = []
    for name in storage.names(under):
        if name.startswith("data") and name[4:].isdecimal() and len(name) == 7:
            found += [f"{prefix}{name}/{inner}" for inner in storage.names(f"{prefix}{name}") if inner.endswith(".jdb")]
        elif name.endswith(".jdb") and name != MARKER:
            found.append(prefix + name)
    return found


def _move(storage: Storage, old: str, new: str) -> None:
    directory = new.rpartition("/")[0]
    parent = directory.rpartition("/")[0]
    if directory:
        for path in (parent, directory):
            if path:
                storage.make_directory(path)
    storage.rename(old, new)
    # The new name is created before the old name is removed: a crash in between leaves two names, never no name.
    storage.sync_directory(directory)
    storage.sync_directory(old.rpartition("/")[0])


def _new_directory(storage: Storage) -> str:
    name, count = REPLACED, 0
    while storage.stat(name) is not None:
        count += 1
        name = f"{REPLACED}.{count}"
    storage.make_directory(name)
    storage.sync_directory()
    return name


def staged_files(storage: Storage) -> list[str]:
    """Files received by an earlier attempt, by their final names."""
    try:
        return [path.removeprefix(f"{STAGING}/") for path in _log_paths(storage, STAGING)]
    except NotFoundError:
        return []


def holds_log(storage: Storage) -> bool:
    """Whether there are any log files."""
    try:
        return bool(list_log_files(storage).files)
    except NotFoundError:
        return False


def replica_config(config: EnvironmentConfig) -> EnvironmentConfig:
    """How a node opens its environment.

    If opening finds damage, the environment is marked, and the next start of the node restores it from the group.
    """
    return replace(config, create=True, replicated=True, vlsn_cache_size=1024, mark_damage=True)
