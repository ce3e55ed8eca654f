"""An environment as kinds of contents look at it (``engine.contents.base.Source``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from engine.db.environment import Environment
from engine.errors import DamageError, NotFoundError


class EnvironmentSource:
    """An open environment.

    Arguments:
        env: the environment; it stays the caller's.
    """

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._names = env.database_names()

    @property
    def names(self) -> Sequence[str]:
        """Names of the databases, but for JE's own."""
        return self._names

    def records(self, name: str, limit: int, *, last: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Records of a database, at most so many, from either end; what damage hides is left out."""
        try:
            with self._env.open_database(name) as db:
                yield from islice(db.items(reverse=last), limit)
        except (DamageError, NotFoundError):
            return

    def comparators(self) -> Mapping[str, str]:
        """By database, the Java class that orders its keys, where there is one."""
        found = {}
        for name in self._names:
            with self._env.open_database(name) as db:
                if db.state.order.comparator is not None:
                    found[name] = db.state.order.comparator
        return found
