"""``jetool fleet compare``: compare nodes of replication groups."""

from __future__ import annotations

from jetool.commands.fleet.selection import FLEET_EXITS, backend, choose, environments
from jetool.frame import exits
from jetool.frame.command import Outputs, command
from jetool.frame.options import Run


def _outputs() -> Outputs:
    from jetool.commands.fleet.rows import FleetComparison

    return Outputs("document", (FleetComparison,))


@command(
    "compare",
    outputs=_outputs,
    features=("fields", "progress", "times", "jobs", "spark"),
    formats=("text", "json", "ndjson"),
    examples=(
        ("Which node is newest, and what would the others lose", "jetool fleet compare /data/node1 /data/node2"),
        ("For a script", "jetool fleet compare --inventory nodes.txt --json --fields nodes"),
    ),
    exits={
        exits.DONE: "no node of a group has anything that another lacks, except uncommitted work",
        exits.FINDINGS: "nodes of a group are not at the same commit, or damage was found",
        **FLEET_EXITS,
    },
)
@environments
def compare(run: Run, paths: tuple[str, ...], engine: str, inventory: str | None) -> int:
    """Compare the nodes of replication groups: where each pair was last identical, and what each has after that.

    Nodes are ranked as JE's elections rank them: by the durable VLSN, then by the last VLSN; equal nodes share a rank.
    A group is identified by the UUID in the log, or by the inventory. An unfinished rollback counts as finished,
    because the next recovery finishes it. Nothing is changed.
    """
    from engine.pipeline.fleet.groups import rank
    from engine.pipeline.fleet.jobs import compare_fleet
    from engine.pipeline.inventory import short_names
    from engine.vlsn.compare import IDENTICAL, IN_STEP
    from jetool.commands.fleet.rows import FleetComparison, node_pair, ranked_node

    chosen = choose(run, paths, inventory)
    with backend(run, chosen, engine) as tasks:
        found = compare_fleet(tasks, chosen, run.listener)
    # Formats for programs use directories, which are unambiguous; text uses short names.
    full = run.out.format != "text"
    names = {one.member.env: one.member.env for one in chosen} if full else short_names(one.member for one in chosen)
    nodes = [ranked_node(one, names[one.node.env]) for one in rank(found.nodes)]
    pairs = [node_pair(pair, (names[pair.env], names[pair.other]), full=full) for pair in found.pairs]
    run.out.document(FleetComparison(nodes=nodes, pairs=pairs))
    codes = [exits.DONE]
    # The ranks are incomplete, because a node that was not read may be the newest.
    if len(found.nodes) < len(chosen) or any(node.problem for node in found.nodes):
        codes.append(exits.INCOMPLETE)
    if any(pair.comparison.relation not in (IDENTICAL, IN_STEP) for pair in found.pairs):
        codes.append(exits.FINDINGS)
    if any(node.damages for node in found.nodes):
        run.messages.warning(
            "damage was skipped",
            consequence="entries in the damaged part were not compared",
            hint="jetool fleet verify",
        )
        codes.append(exits.FINDINGS)
    return exits.worst(codes)
