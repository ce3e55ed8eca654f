"""The environments of a fleet command, from its arguments and ``--inventory``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, ParamSpec

import click

from jetool.frame import exits
from jetool.frame.options import Run

if TYPE_CHECKING:
    from engine.pipeline.inventory import EnvironmentListing

P = ParamSpec("P")

FLEET_EXITS: Final = {
    exits.NOT_FOUND: "no environment, no inventory",
    exits.UNSUPPORTED: "Spark or Java is missing, or too old",
    exits.INCOMPLETE: "an environment or a file cannot be read, or Spark failed",
}


def environments(function: Callable[P, int]) -> Callable[P, int]:
    """The arguments ENV... and the option ``--inventory``. Put this decorator directly below ``command``."""
    text = "File that names environments: a path or glob, or a JSON object with env, name and group, on each line."
    function = click.option("--inventory", type=click.Path(), metavar="FILE", help=text)(function)
    about = "Directories of environments, or globs."
    return click.argument("paths", nargs=-1, metavar="[ENV]...", type=click.Path(), help=about)(function)


def choose(run: Run, paths: tuple[str, ...], inventory: str | None) -> list[EnvironmentListing]:
    """List the environments, and warn about those that cannot be listed.

    Raises:
        UsageError: no environment is named, or the inventory has a bad line.
        NotFoundError: the inventory does not exist, a glob matches nothing, or no environment can be listed.
    """
    from engine.pipeline.inventory import list_members, members

    fleet = list_members(members(paths, inventory))
    failed = [listed for listed in fleet if listed.error is not None]
    # Some environments may be missing, but not all of them.
    if len(failed) == len(fleet) and failed[0].error is not None:
        raise failed[0].error
    for listed in failed:
        if listed.error is not None:
            run.messages.warning(
                listed.error.what,
                file=listed.member.env,
                consequence="the environment was left out",
                hint=listed.error.hint,
            )
    return fleet
