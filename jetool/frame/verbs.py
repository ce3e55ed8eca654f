"""The verbs that every kind of environment has.

``Verbs`` names them with their parameters. The function of a command serves JE environments;
``jetool.commands.derby_verbs`` serves Derby databases, and is imported only when the environment is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from jetool.frame.options import Run

if TYPE_CHECKING:
    from engine.rescue.points import Point

Verb: TypeAlias = Callable[..., int]


class Verbs(Protocol):
    """The verbs of every kind of environment. Each method runs the command of its name and returns the exit code."""

    def checkpoint(self, run: Run, /, *, env: str, minimize: bool, accept_loss: bool) -> int:
        """Force a checkpoint."""

    def crash(
        self,
        run: Run,
        /,
        *,
        env: str,
        place: str,
        mode: str,
        seed: int,
        out: str | None,
        in_place: bool,
        matrix: str | None,
    ) -> int:
        """Simulate a crash."""

    def create(
        self,
        run: Run,
        /,
        *,
        env: str,
        dbs: tuple[tuple[str, bool, bool], ...],
        store: str,
        file_max: int | None,
        node_max: int,
        log_version: int,
        replicated: bool,
        group: str,
        node: str,
        address: tuple[str, int],
    ) -> int:
        """Create an environment; ``store`` is its kind."""

    def dbs(
        self, run: Run, /, *, env: str, count: bool, internal: bool, names: tuple[str, ...], as_of: Point | None
    ) -> int:
        """List the databases."""

    def delete(self, run: Run, /, *, env: str, key: bytes, name: str, data: bytes | None) -> int:
        """Delete one record."""

    def dump(
        self,
        run: Run,
        /,
        *,
        env: str,
        name: str | None,
        printable: bool,
        directory: str | None,
        as_of: Point | None,
        decode: str | None,
    ) -> int:
        """Print a whole database."""

    def dump_log(self, run: Run, /, *, env: str, **options: Any) -> int:
        """Print the log."""

    def get(
        self, run: Run, /, *, env: str, key: bytes, name: str | None, as_of: Point | None, decode: str | None
    ) -> int:
        """Print the record of a key."""

    def info(self, run: Run, /, *, env: str, quick: bool, html: str | None, stats: bool, stats_file: str | None) -> int:
        """Print the control data."""

    def load(self, run: Run, /, *, env: str, sources: tuple[str, ...], **options: Any) -> int:
        """Load records."""

    def put(
        self, run: Run, /, *, env: str, key: bytes, data: bytes, name: str, no_overwrite: bool, no_commit: bool
    ) -> int:
        """Write one record."""

    def recover(
        self,
        run: Run,
        /,
        *,
        env: str,
        accept_loss: bool,
        je_default: bool,
        explain: bool,
        timeline: bool,
        estimate: bool,
    ) -> int:
        """Run recovery."""

    def scan(
        self,
        run: Run,
        /,
        *,
        env: str,
        name: str | None,
        first: bytes | None,
        last: bytes | None,
        prefix: bytes | None,
        reverse: bool,
        limit: int | None,
        as_of: Point | None,
        decode: str | None,
    ) -> int:
        """Print records in key order."""

    def txns(
        self,
        run: Run,
        /,
        *,
        env: str,
        fates: tuple[str, ...],
        ids: tuple[int, ...],
        since: int | None,
        until: int | None,
        limit: int | None,
        tail: int | None,
        reverse: bool,
    ) -> int:
        """Print what became of every transaction."""

    def undo(self, run: Run, /, *, env: str, force: bool) -> int:
        """Undo the changes of a repair."""

    def verify(self, run: Run, /, *, env: str, **options: Any) -> int:
        """Check, and print findings."""


SHARED: Final = frozenset(name for name, value in vars(Verbs).items() if callable(value) and name[0] != "_")
