"""Detecting the kind of an environment directory: Berkeley DB JE or Apache Derby.

Marks of a JE environment are its log files, ``00000000.jdb`` and so on, in the directory or in ``data001/``. Marks of a
Derby database are ``service.properties``, the directory ``log`` with ``log.ctrl`` and ``log1.dat``, and the directory
``seg0``. A damaged database may lack one of them, so any two of the three are enough, and so is a control file.
"""

from __future__ import annotations

import re
from typing import Final

import click

from engine.errors import JetoolError, NotFoundError, UsageError, plural
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage

JE: Final = "je"
DERBY: Final = "derby"

_NAMES: Final = {JE: "JE environments", DERBY: "Derby databases"}
_JE_FILE: Final = re.compile(r"[0-9a-f]{8}\.jdb")
_JE_DIRECTORY: Final = re.compile(r"data\d{3}")
_CONTROLS: Final = ("log/log.ctrl", "log/logmirror.ctrl")


def kind_of(storage: Storage) -> str:
    """``JE`` or ``DERBY``.

    Raises:
        NotFoundError: the directory does not exist, or is neither kind.
        UsageError: the directory is both kinds.
    """
    found = storage.stat()
    if found is None:
        raise NotFoundError("no such directory", file=storage.root, hint="check the path of the environment")
    if not found.is_directory:
        raise NotFoundError(
            "not a directory", file=storage.root, hint="name the environment directory, not a file inside it"
        )
    names = storage.names()
    is_je, is_derby = _is_je(storage, names), _is_derby(storage)
    # Do not guess the kind: a command could change the wrong environment.
    if is_je and is_derby:
        raise UsageError(
            "the directory holds both a JE environment and a Derby database",
            file=storage.root,
            consequence="nothing was read or changed",
            hint="move one of them to a directory of its own, or make copies, and name that",
        )
    if not is_je and not is_derby:
        raise _neither(storage, names)
    return DERBY if is_derby else JE


def is_environment(directory: str) -> bool:
    """Whether a directory is a JE environment or a Derby database."""
    try:
        kind_of(DiskStorage(directory))
    except NotFoundError:
        return False
    except (JetoolError, OSError):
        # Both kinds, or unreadable: the command has an error for it.
        return True
    return True


def is_derby(directory: str) -> bool:
    """Whether a directory is a Derby database; errors as ``kind_of``."""
    return kind_of(DiskStorage(directory)) == DERBY


def require(kind: str, storage: Storage, verb: str) -> None:
    """Refuse a directory of the other kind. Whether it is of this kind at all is checked when it is read.

    Arguments:
        kind: ``JE`` or ``DERBY``.
        storage: the directory.
        verb: the verb that serves this kind only.

    Raises:
        UsageError: the directory is of the other kind.
    """
    found = storage.stat()
    if found is None or not found.is_directory:
        return
    is_je, is_derby = _is_je(storage, storage.names()), _is_derby(storage)
    # If the directory is neither or both, the code that reads it reports a more precise error.
    if is_je != is_derby and is_derby == (kind == JE):
        raise no_verb(DERBY if is_derby else JE, verb)


def not_for(kind: str, options: str) -> UsageError:
    """The error for options without a meaning for a kind.

    Arguments:
        kind: ``JE`` or ``DERBY``.
        options: the options as typed.
    """
    return UsageError(f"{options}: not available for {_NAMES[kind]}", hint="leave it out, or see --help")


def require_files_of(kind: str, spelled: str | None) -> None:
    """Refuse ``--files`` with names of another kind of log file.

    Arguments:
        kind: ``JE`` or ``DERBY``.
        spelled: the kind of the names, None for plain numbers.
    """
    if spelled is not None and spelled != kind:
        raise not_for(kind, f"--files with names of log files of {_NAMES[spelled]}")


def require_je(storage: Storage) -> None:
    """Refuse a directory that is not a JE environment.

    Raises:
        NotFoundError: there is no environment. UsageError: the directory is a Derby database.
    """
    if kind_of(storage) == DERBY:
        raise not_for(DERBY, str(click.get_current_context().command.name))


def no_verb(kind: str, verb: str) -> UsageError:
    """The error for a verb that a kind does not support."""
    text = f"{verb} is not available for {_NAMES[kind]} in this version"
    return UsageError(text, consequence="nothing was read or changed", hint="see jetool --help")


def _is_je(storage: Storage, names: list[str]) -> bool:
    if any(_JE_FILE.fullmatch(name) for name in names):
        return True
    directories = [name for name in names if _JE_DIRECTORY.fullmatch(name) and _is_directory(storage, name)]
    return any(_JE_FILE.fullmatch(name) for directory in directories for name in storage.names(directory))


def _is_derby(storage: Storage) -> bool:
    # Only Derby has a control file of this name.
    if any(storage.stat(path) is not None for path in _CONTROLS):
        return True
    marks = (
        storage.stat("service.properties") is not None,
        _is_directory(storage, "log"),
        _is_directory(storage, "seg0"),
    )
    return sum(marks) > 1


def _is_directory(storage: Storage, path: str) -> bool:
    found = storage.stat(path)
    return found is not None and found.is_directory


def _neither(storage: Storage, names: list[str]) -> NotFoundError:
    hint = "check the path; log files may be in another directory than the application's configuration"
    if "log.ctrl" in names or "log1.dat" in names:
        hint = "this is the log directory of a Derby database: name the directory above it"
    elif "c10.dat" in names:
        hint = "this is a segment of a Derby database: name the directory above it"
    elif "domains.state" in names:
        hint = f"this is the replication changelog of an OpenDJ server: jetool ldap changelog {storage.root}"
    return NotFoundError(
        "no Berkeley DB JE environment and no Derby database",
        file=storage.root,
        expected="log files such as 00000000.jdb, or service.properties with log/ and seg0/",
        found="an empty directory" if not names else plural(len(names), "other file"),
        hint=hint,
    )
