"""Which kind of environment a directory is, Berkeley DB JE or Apache Derby, and which function serves a verb on it.

Marks of a JE environment are its log files, ``00000000.jdb`` and so on, in the directory or in ``data001/``. Marks of a
Derby database are ``service.properties``, the directory ``log`` with ``log.ctrl`` and ``log1.dat``, and the directory
``seg0``. One of these files may be missing from a damaged database, so any two of the three are enough, and so is a
control file.

The function of a command serves JE environments. ``Verbs`` names the commands that another kind has too;
``jetool.derby.verbs`` serves them on Derby databases, with the parameters of the command, and is imported only for one.
On all other verbs a Derby database is refused (exit 2).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

from engine.errors import NotFoundError, UsageError
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from jetool.app.options import Run

JE: Final = "je"
DERBY: Final = "derby"

_NAMES: Final = {JE: "JE environments", DERBY: "Derby databases"}
_JE_FILE: Final = re.compile(r"[0-9a-f]{8}\.jdb")
_JE_DIRECTORY: Final = re.compile(r"data\d{3}")
_CONTROLS: Final = ("log/log.ctrl", "log/logmirror.ctrl")


def kind_of(storage: Storage) -> str:
    """``JE`` or ``DERBY``.

    Raises:
        NotFoundError: there is no such directory, or it is neither.
        UsageError: it is both.
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
    # Guessing could change the wrong one.
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


def is_derby(directory: str) -> bool:
    """Whether a directory is a Derby database; errors as ``kind_of``."""
    return kind_of(DiskStorage(directory)) == DERBY


def require(kind: str, storage: Storage, verb: str) -> None:
    """Refuse a directory of the other kind; whether it is one of this kind at all is for the reader to say.

    Arguments:
        kind: ``JE`` or ``DERBY``.
        storage: the directory.
        verb: the verb that serves this kind only.

    Raises:
        UsageError: it is of the other kind.
    """
    found = storage.stat()
    if found is None or not found.is_directory:
        return
    is_je, is_derby = _is_je(storage, storage.names()), _is_derby(storage)
    # Neither or both is left to the reader, whose message says more.
    if is_je != is_derby and is_derby == (kind == JE):
        raise no_verb(DERBY if is_derby else JE, verb)


def not_for(kind: str, options: str) -> UsageError:
    """The error for options that have no meaning for a kind.

    Arguments:
        kind: ``JE`` or ``DERBY``.
        options: the options, as the user writes them.
    """
    return UsageError(f"{options}: not available for {_NAMES[kind]}", hint="leave it out, or see --help")


def no_verb(kind: str, verb: str) -> UsageError:
    """The error for a verb that does not exist for a kind, in this version or at all."""
    text = f"{verb} is not available for {_NAMES[kind]} in this version"
    return UsageError(text, consequence="nothing was read or changed", hint="see jetool --help")


def _is_je(storage: Storage, names: list[str]) -> bool:
    if any(_JE_FILE.fullmatch(name) for name in names):
        return True
    directories = [name for name in names if _JE_DIRECTORY.fullmatch(name) and _is_directory(storage, name)]
    return any(_JE_FILE.fullmatch(name) for directory in directories for name in storage.names(directory))


def _is_derby(storage: Storage) -> bool:
    # Nothing but Derby has a control file of this name.
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
    return NotFoundError(
        "no Berkeley DB JE environment and no Derby database",
        file=storage.root,
        expected="log files such as 00000000.jdb, or service.properties with log/ and seg0/",
        found="an empty directory" if not names else f"{len(names)} other files",
        hint=hint,
    )


Verb: TypeAlias = Callable[..., int]


class Verbs(Protocol):
    """The verbs that every kind of environment has: what the command of the name does, and its exit code."""

    def checkpoint(self, run: Run, /, *, env: str, minimize: bool, accept_loss: bool) -> int:
        """Force a checkpoint."""

    def crash(
        self, run: Run, /, *, env: str, place: str, mode: str, seed: int, out: str | None, in_place: bool,
        matrix: str | None,
    ) -> int:  # fmt: skip
        """Simulate a crash."""

    def create(
        self, run: Run, /, *, env: str, dbs: tuple[tuple[str, bool, bool], ...], store: str, file_max: int | None,
        node_max: int, replicated: bool, group: str, node: str, address: tuple[str, int],
    ) -> int:  # fmt: skip
        """Make a new environment; ``store`` is its kind."""

    def dbs(self, run: Run, /, *, env: str, count: bool, internal: bool, names: tuple[str, ...]) -> int:
        """List the databases."""

    def delete(self, run: Run, /, *, env: str, key: bytes, name: str, data: bytes | None) -> int:
        """Delete one record."""

    def dump(self, run: Run, /, *, env: str, name: str, printable: bool) -> int:
        """Print a whole database."""

    def dump_log(self, run: Run, /, *, env: str, **options: Any) -> int:
        """Print the log."""

    def get(self, run: Run, /, *, env: str, key: bytes, name: str) -> int:
        """Print the record of a key."""

    def info(self, run: Run, /, *, env: str, quick: bool, stats: bool) -> int:
        """Print the control data."""

    def load(self, run: Run, /, *, env: str, sources: tuple[str, ...], **options: Any) -> int:
        """Load records."""

    def put(
        self, run: Run, /, *, env: str, key: bytes, data: bytes, name: str, no_overwrite: bool, no_commit: bool
    ) -> int:
        """Write one record."""

    def recover(self, run: Run, /, *, env: str, accept_loss: bool, je_default: bool, explain: bool) -> int:
        """Run recovery."""

    def scan(
        self, run: Run, /, *, env: str, name: str, first: bytes | None, last: bytes | None, prefix: bytes | None,
        reverse: bool, limit: int | None,
    ) -> int:  # fmt: skip
        """Print records in key order."""

    def txns(
        self, run: Run, /, *, env: str, fates: tuple[str, ...], ids: tuple[int, ...], since: int | None,
        until: int | None, limit: int | None,
    ) -> int:  # fmt: skip
        """Print what became of every transaction."""

    def undo(self, run: Run, /, *, env: str, force: bool) -> int:
        """Take back what a repair changed."""

    def verify(self, run: Run, /, *, env: str, quick: bool, full: bool, strict: bool, **asked: bool) -> int:
        """Check, and print findings."""


SHARED: Final = frozenset(name for name, value in vars(Verbs).items() if callable(value) and name[0] != "_")


def serving(own: Verb, name: str, env: str) -> Verb:
    """The function that serves a verb on the environment in a directory.

    Arguments:
        own: the command's own.
        name: the command's name.
        env: the directory.

    Raises:
        NotFoundError: there is no such directory, or it is neither kind.
        UsageError: it is both kinds, or of a kind that does not have the verb.
    """
    storage = DiskStorage(env)
    if own.__name__ in SHARED:
        return of_kind(kind_of(storage), own)
    # A directory that is neither is left to the command, whose own error says more.
    require(JE, storage, name)
    return own


def of_kind(kind: str, own: Verb) -> Verb:
    """The function that serves a shared verb on a kind of environment; ``own`` is the command's."""
    if kind == JE:
        return own
    # Not at the top: a command on a JE environment never loads Derby's side.
    from jetool.derby import verbs

    derby: Verbs = verbs
    found: Verb = getattr(derby, own.__name__)
    return found
