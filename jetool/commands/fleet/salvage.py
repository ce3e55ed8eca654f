"""``jetool fleet salvage``: save the newest committed records of damaged environments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

import click

from engine.fields import Choices, FieldName, Int, Text, record
from jetool.commands.fleet.selection import FLEET_EXITS, backend, choose, environments
from jetool.frame import exits
from jetool.frame.command import Outputs, command
from jetool.frame.decode_option import decode_option
from jetool.frame.options import Run, out_option

FORMS: Final = ("parquet", "json", "csv")


@record()
class SalvagedEnvironment(NamedTuple):
    """An environment that was read."""

    environment: Annotated[Text, "its directory"]
    from_: Annotated[
        Text | None, "where its records come from; null: it gave none", Choices(("tree", "log")), FieldName("from")
    ]
    records: Annotated[Int, "records that it gave"]
    problem: Annotated[Text | None, "why recovery was of no use"]
    damages: Annotated[Int, "stretches of damage in its log"]


@record("salvaged")
class FleetSalvage(NamedTuple):
    """What was salvaged."""

    to: Annotated[Text, "directory with the datasets records, lost, doubt and orphans"]
    as_: Annotated[Text, "their format", Choices(FORMS), FieldName("as")]
    records: Annotated[Int, "records written"]
    lost: Annotated[Int, "records whose newest version cannot be read"]
    stood_in: Annotated[Int, "lost records for which an older version was written"]
    unconfirmed: Annotated[Int, "records whose newer version or deletion damage may hide"]
    in_doubt: Annotated[Int, "newer versions whose transaction has no end in the log"]
    orphans: Annotated[Int, "records of databases that nothing names"]
    sources: Annotated[Sequence[SalvagedEnvironment], "the environments"]


@command(
    "salvage",
    outputs=lambda: Outputs("document", (FleetSalvage,)),
    features=("fields", "progress", "jobs", "spark"),
    formats=("text", "json", "ndjson"),
    examples=(
        (
            "What is left of two damaged nodes of a group",
            "jetool fleet salvage /data/node1 /data/node2 --out /tmp/saved",
        ),
        ("As CSV with hex", "jetool fleet salvage '/data/*/je' --out /tmp/saved --as csv"),
    ),
    exits={
        exits.DONE: "every environment recovered, and every record was read",
        exits.REFUSED: "the output directory is not empty",
        exits.DATA_GIVEN_UP: "written; something was damaged: the result lists what is lost",
        **FLEET_EXITS,
    },
)
@environments
@out_option("A new directory for the result.")
@click.option("--as", "kind", type=click.Choice(FORMS), default="parquet", help="The format.  [default: parquet]")
@decode_option
def salvage(
    run: Run, paths: tuple[str, ...], engine: str, inventory: str | None, to: str, kind: str, decode: str | None
) -> int:
    """Write the newest committed version of every record of damaged environments, and list what is lost.

    If an environment recovers and all its records can be read, the records are those of recovery. Otherwise they are
    collected from its log: the newest legible version whose transaction committed. Nodes of one group are combined, so
    that one node supplies what another has lost. Where damage may hide a newer version of a record, or its deletion,
    the column confirmed is false. DIR gets four datasets: records, lost (keys whose newest version cannot be read),
    doubt (newer versions whose transaction has no end in the log) and orphans (records of databases that nothing
    names). --decode adds three columns: decoded_key and decoded_data as JSON, and known; with auto they are null where
    no decoder recognises the environment's product. Nothing is written to the sources. The result equals that of jetool
    salvage.
    """
    from engine.pipeline.fleet.salvage import salvage_fleet
    from engine.pipeline.tables import require_new, require_parquet

    require_new(to)
    if kind == FORMS[0]:
        require_parquet("take another format: --as json")
    chosen = choose(run, paths, inventory)
    with backend(run, chosen, engine, quick=False, shuffles=True) as tasks:
        done = salvage_fleet(tasks, chosen, to, kind, run.listener, decode)
    sources = []
    for one in done.health:
        source, count = done.records.get(one.env, (None, 0))
        damages = len(one.node.survey.damages) if one.node is not None else 0
        sources.append(
            SalvagedEnvironment(
                environment=one.env, from_=source, records=count, problem=one.problem or None, damages=damages
            )
        )
        # Not even the log of this environment could be read; the others have supplied everything legible.
        if one.node is None:
            run.messages.warning(one.problem, file=one.env, consequence="no record of it was saved")
    total = sum(count for _, count in done.records.values())
    run.out.document(
        FleetSalvage(
            to=to,
            as_=kind,
            records=total,
            lost=done.lost,
            stood_in=done.stood_in,
            unconfirmed=done.unconfirmed,
            in_doubt=done.in_doubt,
            orphans=done.orphans,
            sources=sources,
        )
    )
    codes = [exits.DONE]
    if len(done.health) < len(chosen) or any(one.node is None for one in done.health):
        codes.append(exits.INCOMPLETE)
    # A failed recovery counts as lost data, because a deletion may be lost without a trace.
    if done.lost or done.in_doubt or any(one.problem for one in done.health):
        codes.append(exits.DATA_GIVEN_UP)
    return exits.worst(codes)
