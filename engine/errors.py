"""The error classes: a few kinds, each with fields and one exit code.

A kind states what an operator can do about the error, not where it was raised:

=====================  ====  =====================================================
kind                   code  meaning
=====================  ====  =====================================================
UsageError             2     the request itself makes no sense
RefusedError           3     a lock is held, or an interlock stops a dangerous step
NotFoundError          4     no environment, database, file or key of that name
UnsupportedError       5     a log version or a file that this program cannot read
DamageError            7     bytes are not what the format says, and reading stopped
StorageError           7     the operating system refused a read or a write
JobError               7     Spark did not start, or one of its jobs failed
=====================  ====  =====================================================

Subclasses serve programs that handle one case: ``ExistsError``, ``DatabaseNotFoundError``, ``ClosedError`` and others
have the kind and the exit code of the class above them. ``engine`` exports all that the library raises.

Damage that a reader can step over is not an error: readers report it as a value (``engine.log.reader.Damage``) and
continue. The kinds here are raised only where the operation cannot sensibly continue.

The message is built from the fields: what, where (file, LSN), expected and found, consequence, next command. ``plural``
formats the counts in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, TypeVar

E = TypeVar("E", bound=BaseException)

# Patterns are compiled at the first error: every command imports this module, and few print one.
# Clauses after which the file is named without a preposition: the file is what they speak of.
_BARE = r"(no such|not an?) [a-z -]+"
_VERB = r"cannot [a-z]+( the (file|directory))?|no directory matches"
_SUBJECT = (
    r"the (environment|directory|directory for the copy|output directory|backup directory|file|database|manifest) "
    r"(?=(is|has|had|holds|held|belongs|must|does|preserves|names|was) )"
)
# A clause in plain words, and what explains it.
_EXPLAINED = r"(?!(no|there is a) (record|version) )([a-zA-Z ,'()-]+)(: .+)"


def located(what: str, file: str | None, lsn: str | None) -> str:
    """A clause with its file and LSN, as a sentence would have them.

    ``the directory is not empty`` becomes ``the directory /data/out is not empty``, ``no such file`` becomes ``no such
    file: /data/x``, and ``the log is damaged: bad checksum`` becomes ``the log is damaged in 0.jdb at 0x0/0x1f: bad
    checksum``.
    """
    at = f" at {lsn}" if lsn else ""
    # Many errors of the operating system name the file already.
    if not file or (what.startswith("cannot ") and f" {file}:" in f"{what}:"):
        return what + at
    if re.fullmatch(_BARE, what):
        return f"{what}: {file}{at}"
    if re.fullmatch(_VERB, what):
        return f"{what} {file}{at}"
    subject = re.match(_SUBJECT, what)
    if subject is not None:
        return f"{subject[0]}{file} {what[subject.end() :]}{at}"
    explained = re.fullmatch(_EXPLAINED, what)
    if explained is not None:
        return f"{explained[3]} in {file}{at}{explained[4]}"
    return f"{what} in {file}{at}"


class JetoolError(Exception):
    """Base of every error that jetool raises on purpose.

    Arguments:
        what: one clause, lower case, without a full stop: what is wrong.
        file: the file concerned, as the user would name it.
        lsn: the LSN concerned, as text in JE's spelling (``0x1f/0x2a3c``).
        expected: what the format or the request asked for.
        found: what was there.
        consequence: what this means for the data or for the run.
        hint: the next command or action.
        figures: the numbers in the message, for programs; they become further keys of ``fields``.
    """

    exit_code: ClassVar[int] = 70
    kind: ClassVar[str] = "internal"

    def __init__(
        self,
        what: str,
        *,
        file: str | None = None,
        lsn: str | None = None,
        expected: str | None = None,
        found: str | None = None,
        consequence: str | None = None,
        hint: str | None = None,
        figures: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.file = file
        self.lsn = lsn
        self.expected = expected
        self.found = found
        self.consequence = consequence
        self.hint = hint
        self.figures = figures or {}

    def __str__(self) -> str:
        text = located(self.what, self.file, self.lsn)
        if self.expected is not None or self.found is not None:
            found = "nothing" if self.found is None else self.found
            text += f": expected {self.expected}, found {found}" if self.expected is not None else f": {found}"
        if self.consequence:
            text += f"; {self.consequence}"
        return text

    def fields(self) -> dict[str, str | int]:
        """The error as plain values, without the fields that are not set."""
        named: dict[str, str | int | None] = {
            "kind": self.kind,
            "exit_code": self.exit_code,
            "what": self.what,
            "file": self.file,
            "lsn": self.lsn,
            "expected": self.expected,
            "found": self.found,
            "consequence": self.consequence,
            "hint": self.hint,
            **self.figures,
        }
        return {name: value for name, value in named.items() if value is not None}


class UsageError(JetoolError):
    """The request makes no sense: an unknown form of address, or options that exclude each other."""

    exit_code = 2
    kind = "usage"


class ArgumentError(UsageError, TypeError):
    """An argument of a call has an invalid type or size."""


class RefusedError(JetoolError):
    """Another process or transaction holds a lock, or a safety interlock prevents the step."""

    exit_code = 3
    kind = "refused"


class ExistsError(RefusedError):
    """A database, table or sequence of that name exists already."""


class ClosedError(RefusedError):
    """The environment, the handle or the cursor is closed, or the database of the handle has been removed."""


class ReadOnlyError(RefusedError):
    """The environment is open for reading only."""


class InUseError(RefusedError):
    """Another process or another handle has the environment or the database open."""


class TransactionStateError(RefusedError):
    """The transaction has ended, is prepared, or can only be aborted."""


class TransactionAbortedError(TransactionStateError):
    """The transaction has been aborted, or can only be aborted; ``__cause__`` is the error that made it so."""


class NotFoundError(JetoolError):
    """There is no environment, database, file or key of that name."""

    exit_code = 4
    kind = "not_found"


class DatabaseNotFoundError(NotFoundError):
    """The environment has no database of that name."""


class UnsupportedError(JetoolError):
    """A log version above or below what this program reads, or a file that is not a JE log."""

    exit_code = 5
    kind = "unsupported"


class DamageError(JetoolError):
    """Bytes do not match the format, and the caller asked to stop at the first such place."""

    exit_code = 7
    kind = "damage"


class StorageError(JetoolError):
    """The operating system refused an operation on a file (permissions, I/O error, no space)."""

    exit_code = 7
    kind = "storage"


class JobError(JetoolError):
    """Spark did not start, or one of its jobs failed."""

    exit_code = 7
    kind = "job"


class FormatError(JetoolError):
    """A body or a scalar that cannot be decoded. Codecs raise it; readers report it as damage with its position."""

    exit_code = 7
    kind = "damage"


def plural(number: int, noun: str, nouns: str | None = None) -> str:
    """A number with its noun: ``1 file``, ``2 files``; ``3 entries`` or ``2 records are`` where the plural is given.

    Every count in a message is formatted here, so that no message says "1 files".
    """
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"


def caused_by(error: E, cause: BaseException | None) -> E:
    """An error with its cause set. For compiled modules, where ``raise error from cause`` loses the cause."""
    error.__cause__ = cause
    return error
