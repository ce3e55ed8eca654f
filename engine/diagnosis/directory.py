"""Environments and databases in a directory, and a diagnosis of each.

A directory is an environment, a Derby database, or something that holds some: the ``meta`` directory of a frontend, the
``db`` directory of an LDAP server, the root of a NoSQL storage node. Snapshots, copies of repairs and hidden
directories are passed over, and so is whatever lies inside an environment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from engine.changelog.directory import is_changelog
from engine.derby.database import is_database
from engine.diagnosis.derby_database import diagnose_derby
from engine.diagnosis.je_environment import diagnose_je
from engine.diagnosis.record import DEFAULT_OPTIONS, Diagnosis, DiagnosisOptions
from engine.diagnosis.steps import COPY, SAVED
from engine.errors import NotFoundError, UsageError, plural
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage

# ``kvroot/mystore/sn1/rg1-rn1/env`` is four levels below the root of a storage node.
MOST_LEVELS: Final = 5
MOST_FOUND: Final = 64
_MOST_DIRECTORIES: Final = 20_000
_PASSED_OVER: Final = frozenset(("snapshots", "recovery"))
# Beside a directory: what repairs save, and what the steps of a diagnosis write.
_BESIDE: Final = (".jetool-backup", COPY, SAVED)


def find_environments(directory: str) -> list[str]:
    """The environments and databases in a directory: itself, or those below it, in the order of their paths.

    Raises:
        NotFoundError: there is no such directory, or nothing in it.
        UsageError: a directory is both an environment and a database.
    """
    disk = DiskStorage(directory)
    found = disk.stat()
    if found is None or not found.is_directory:
        raise NotFoundError(
            "no such directory" if found is None else "not a directory",
            file=directory,
            hint="name an environment, a database, or a directory that holds some",
        )
    places = list(_below(disk.root, 0, [0]))
    if not places:
        hint = "name the directory that holds them; jetool info DIR says what a directory lacks"
        if is_changelog(disk):
            hint = f"this is the replication changelog of an OpenDJ server: jetool ldap changelog {directory}"
        raise NotFoundError(
            "no JE environment and no Derby database",
            file=directory,
            expected=f"log files such as 00000000.jdb, or service.properties, up to {MOST_LEVELS} levels down",
            hint=hint,
        )
    return places


def diagnose(path: str, options: DiagnosisOptions = DEFAULT_OPTIONS) -> Diagnosis:
    """Diagnose one environment or database; nothing is changed.

    Raises:
        NotFoundError: the directory holds neither. UsageError: it is both.
        StorageError: the directory cannot be read.
    """
    if _holds(path) == "derby":
        return diagnose_derby(path, options)
    return diagnose_je(path, options)


def _below(path: str, level: int, seen: list[int]) -> Iterator[str]:
    seen[0] += 1
    if seen[0] > _MOST_DIRECTORIES:
        raise UsageError(
            "too many directories to look through",
            file=path,
            expected=f"up to {plural(_MOST_DIRECTORIES, 'directory', 'directories')}",
            hint="name a directory nearer to the environments",
        )
    if _holds(path):
        yield path
        return
    if level == MOST_LEVELS:
        return
    try:
        with os.scandir(path) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir())
    except OSError:
        # A directory of somebody else below a named one is no reason to stop.
        return
    for name in names:
        is_beside = any(name.endswith(one) and name.removesuffix(one) in names for one in _BESIDE)
        if not name.startswith(".") and name not in _PASSED_OVER and not is_beside:
            yield from _below(os.path.join(path, name), level + 1, seen)


def _holds(path: str) -> str:
    """``je``, ``derby``, or empty."""
    disk = DiskStorage(path)
    try:
        list_log_files(disk)
        is_je = True
    except NotFoundError:
        is_je = False
    derby = is_database(disk)
    if is_je and derby:
        raise UsageError(
            "the directory holds both a JE environment and a Derby database",
            file=path,
            consequence="nothing was read or changed",
            hint="move one of them to a directory of its own, or make copies, and name that",
        )
    return "je" if is_je else "derby" if derby else ""
