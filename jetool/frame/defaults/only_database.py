"""The option ``--db`` of commands that read, and the database to read if it is left out.

Commands that write do not guess: there the option is required.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, ParamSpec

import click

from engine.errors import NotFoundError, UsageError, plural
from jetool.frame import params
from jetool.frame.options import Run

P = ParamSpec("P")
# Names in one message; more do not help.
_MOST_NAMES: Final = 20


def database_option(function: Callable[P, int]) -> Callable[P, int]:
    """The option ``--db`` (parameter ``name``, which may be None) of commands that read one database."""
    text = "The database.  [default: the only one]"
    return click.option("-s", "--db", "name", type=params.DATABASE, metavar="NAME", help=text)(function)


def chosen_database(run: Run, env: str, name: str | None, names: Sequence[str]) -> str:
    """The database to read: the given one, else the only one, which a notice names.

    Arguments:
        env: the directory of the environment.
        name: the value of ``--db``. Whether it exists is checked when it is opened.
        names: the databases, or the tables of a page store.

    Raises:
        UsageError: there are several. NotFoundError: there are no databases.
    """
    if name is not None:
        return name
    if not names:
        raise NotFoundError("the environment has no database", file=env, hint=f"jetool info {env} shows what it has")
    if len(names) > 1:
        shown = ", ".join(sorted(names)[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
        raise UsageError(
            f"the environment has {plural(len(names), 'database')}: name one with --db",
            file=env,
            found=shown,
            hint=f"jetool dbs {env} lists them",
        )
    run.messages.notice(f"--db {names[0]} is used, the only database", file=env)
    return names[0]
