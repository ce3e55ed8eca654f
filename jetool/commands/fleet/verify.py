"""``jetool fleet verify``: findings about many environments."""

from __future__ import annotations

import click

from jetool.commands.fleet.selection import FLEET_EXITS, backend, choose, environments
from jetool.frame import exits
from jetool.frame.command import Outputs, command
from jetool.frame.options import Run


def _outputs() -> Outputs:
    from jetool.commands.fleet.verify_output import FleetCheckSummary
    from jetool.output.findings import FleetFindingRow

    return Outputs("findings", (FleetFindingRow,), FleetCheckSummary)


@command(
    "verify",
    outputs=_outputs,
    formats=("text", "json", "ndjson", "csv", "junit", "sarif", "prometheus"),
    features=("fields", "progress", "jobs", "spark"),
    examples=(
        ("Are all logs whole", "jetool fleet verify '/data/*/je'"),
        ("Every record of every environment, for a pipeline", "jetool fleet verify '/data/*/je' --full --format junit"),
    ),
    exits={
        exits.DONE: "checked and clean; torn tails that hold no commit are clean, with a note",
        exits.FINDINGS: "damage",
        **FLEET_EXITS,
        exits.WARNINGS: "only warnings, and --strict",
    },
)
@environments
@click.option("--quick", is_flag=True, help="Check only the last file of each log.")
@click.option("--full", is_flag=True, help="Also check trees, references and records.")
@click.option("--strict", is_flag=True, help="Exit 8 if there are only warnings.")
def verify(
    run: Run, paths: tuple[str, ...], engine: str, inventory: str | None, quick: bool, full: bool, strict: bool
) -> int:
    """Check every environment as jetool verify does, and print the findings of all.

    Without an option the whole log of each is read. Files are divided among all cores, even those of one large
    environment. Trees (--full) are one task for each environment, or several if the cluster has more cores than
    environments. Nothing is changed.
    """
    from engine.pipeline.fleet.verify import verify_fleet
    from engine.verify import environment as levels
    from jetool.commands.fleet.verify_output import print_findings

    wanted = levels.LEVELS if full else levels.QUICK if quick else levels.DEFAULT
    chosen = choose(run, paths, inventory)
    with backend(run, chosen, engine) as tasks:
        found = verify_fleet(tasks, chosen, wanted, run.listener)
        # Print before Spark shuts down, so that the reader need not wait for it.
        return print_findings(run, found, strict=strict)
