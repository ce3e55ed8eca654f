"""The environments of a fleet command (``--inventory``), and where its tasks run (``--engine``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, ParamSpec

import click

from jetool.frame import exits
from jetool.frame.options import Run

if TYPE_CHECKING:
    from engine.pipeline.fleet.backends import FleetBackend
    from engine.pipeline.inventory import EnvironmentListing

P = ParamSpec("P")

FLEET_EXITS: Final = {
    exits.NOT_FOUND: "no environment, no inventory",
    exits.UNSUPPORTED: "a package that is needed is missing, or Spark or Java is missing or too old",
    exits.INCOMPLETE: "an environment or a file cannot be read, or Spark failed",
}


def environments(function: Callable[P, int]) -> Callable[P, int]:
    """The arguments ENV..., and the options ``--engine`` and ``--inventory``. Put this decorator directly below
    ``command``."""
    function = click.option(
        "--engine",
        type=click.Choice(("auto", "spark", "local")),
        default="auto",
        show_default=True,
        help="Who reads the logs: Spark, or processes of this machine; auto means Spark for 1 GiB of log and more, by "
        "verify and compare only on a cluster, and local where PySpark is not installed. The output is the same.",
    )(function)
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
    from engine.pipeline.job_run import waiting

    with waiting("list", run.listener):
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


@contextmanager
def backend(
    run: Run, fleet: Sequence[EnvironmentListing], engine: str, *, quick: bool = True, shuffles: bool = False
) -> Iterator[FleetBackend]:
    """Where the tasks run: Spark, which is started and stopped, or processes of this machine.

    Arguments:
        engine: the value of ``--engine``.
        quick: the job on Spark is small, so prefer a fast start to fast execution.
        shuffles: the job has a shuffle on Spark.

    Raises:
        UsageError: ``--engine local`` with options of Spark. JetoolError: Spark does not start.
    """
    from engine.pipeline.fleet.backends import LocalFleet, SparkFleet, log_bytes, pays_to_fork
    from jetool.frame.spark_session import session

    size = log_bytes(fleet)
    if _is_local(run, engine, size, shuffles=shuffles):
        yield LocalFleet(run.jobs, forks=pays_to_fork(size))
        return
    with session(run, quick=quick) as spark:
        yield SparkFleet(spark)


def _is_local(run: Run, engine: str, size: int, *, shuffles: bool) -> bool:
    from engine.pipeline.python_side import has
    from engine.pipeline.settings import starts_spark

    # Options of Spark imply that the user wants Spark.
    of_spark = [name for name, given in (("--master", run.master), ("--conf", run.conf)) if given]
    if engine == "local" and of_spark:
        raise click.UsageError(
            f"--engine local reads without Spark; leave out {of_spark[0]}", click.get_current_context()
        )
    if engine != "auto" or of_spark:
        return engine == "local"
    return not has("pyspark") or not starts_spark(size, shuffles=shuffles)
