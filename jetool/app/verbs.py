"""Which function serves a verb: chosen by the kind of the environment, here and nowhere else.

The function of a command serves JE environments. ``Verbs`` names the commands that another kind has too;
``jetool.derby.verbs`` serves them on Derby databases, with the parameters of the command, and is imported only for one.
On all other verbs a Derby database is refused (exit 2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

from engine.storage.disk import DiskStorage
from jetool.app import kinds
from jetool.app.options import Run

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
        return of_kind(kinds.kind_of(storage), own)
    # A directory that is neither is left to the command, whose own error says more.
    kinds.require(kinds.JE, storage, name)
    return own


def of_kind(kind: str, own: Verb) -> Verb:
    """The function that serves a shared verb on a kind of environment; ``own`` is the command's."""
    if kind == kinds.JE:
        return own
    # Not at the top: a command on a JE environment never loads Derby's side.
    from jetool.derby import verbs

    derby: Verbs = verbs
    found: Verb = getattr(derby, own.__name__)
    return found
