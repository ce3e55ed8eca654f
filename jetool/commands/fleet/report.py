"""``jetool fleet report``: the state of many environments."""

from __future__ import annotations

import click

from jetool.commands.fleet.selection import FLEET_EXITS, backend, choose, environments
from jetool.frame import exits
from jetool.frame.command import Outputs, command
from jetool.frame.options import Run


def _outputs() -> Outputs:
    from jetool.commands.fleet.rows import EnvironmentProfile, FleetSummary

    return Outputs("stream", (EnvironmentProfile,), FleetSummary)


@command(
    "report",
    outputs=_outputs,
    features=("fields", "progress", "times", "jobs", "spark"),
    examples=(
        ("All environments below a directory, in the terminal", "jetool fleet report '/data/*/je'"),
        ("As a page with log maps and charts", "jetool fleet report --inventory fleet.txt --html fleet.html"),
        (
            "As tables for a notebook",
            "jetool fleet report '/data/*/je' --parquet /tmp/fleet --master spark://host:7077",
        ),
    ),
    exits={
        exits.DONE: "all were read; torn tails are not damage",
        exits.FINDINGS: "all were read; damage was found, or files are missing that recovery or the trees need",
        exits.REFUSED: "the directory of --parquet is not empty",
        **FLEET_EXITS,
    },
)
@environments
@click.option("--html", type=click.Path(), metavar="FILE", help="Write a page with maps and charts; one file.")
@click.option("--parquet", type=click.Path(), metavar="DIR", help="Write the report as a Parquet dataset.")
def report(
    run: Run, paths: tuple[str, ...], engine: str, inventory: str | None, html: str | None, parquet: str | None
) -> int:
    """Report on every environment: entries and bytes by type, garbage, checkpoints and what recovery would read, open
    and rolled-back transactions, rollback periods, VLSNs, the last commit, damage.

    Every byte is read and every checksum tested, in tasks of 8 MB of log or more, on Spark 64 MB; a task returns a few
    kilobytes. Nothing is changed. Garbage is taken from the utilization records of the logs. Where files are missing,
    the environment is recovered in memory: a missing file that no tree refers to was cleaned; any other one counts as
    damage. Environments with damage come first.
    """
    from engine.pipeline.fleet.jobs import report_fleet
    from engine.pipeline.fleet.profile import worst_first
    from engine.pipeline.tables import require_new, require_parquet
    from jetool.commands.fleet.report_output import page_file, print_report, write_dataset, write_page

    if parquet is not None:
        # Refuse an existing target now, not after hours of reading.
        require_new(parquet)
        require_parquet()
    chosen = choose(run, paths, inventory)
    with page_file(run, html) as target:
        with backend(run, chosen, engine, shuffles=True) as tasks:
            profiles = worst_first(report_fleet(tasks, chosen, run.listener))
        if target is not None:
            write_page(target, profiles)
    if parquet is not None:
        write_dataset(run, parquet, profiles)
    return print_report(run, profiles)
