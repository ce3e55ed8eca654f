"""``jetool node transfer-master``."""

from __future__ import annotations

from typing import Final

import click

from engine.rep.client.transferring import transfer_master
from jetool.app import exits, params
from jetool.app.command import Outputs, command
from jetool.app.networks import network_of
from jetool.app.options import Run
from jetool.commands.node.peers import node
from jetool.output.shape import Field, Shape

TRANSFERRED: Final = Shape(
    "transferred",
    "The request for another master.",
    (Field("node", "text", "the node that becomes the master"), Field("asked", "text", "the node that was asked")),
)


@command(
    "transfer-master",
    parent=node,
    outputs=lambda: Outputs("document", (TRANSFERRED,)),
    features=("fields", "tls"),
    examples=(
        ("Another master", "jetool node transfer-master db1:5001 --to n2"),
        ("One that may take a minute to catch up", "jetool node transfer-master db1:5001 --to n3 --timeout 60"),
    ),
    exits={
        exits.DONE: "the node becomes the master",
        exits.NOT_FOUND: "no node answers",
        exits.REFUSED: "there is no master, it refuses, or the other node does not catch up",
    },
)  # fmt: skip
@click.argument("address", type=params.HOST, help="Where a node of the group listens.")
@click.option("--to", "name", required=True, metavar="NAME", help="The node that shall become the master.")
@click.option("--timeout", type=click.IntRange(1, 3600), default=10, metavar="S",
              help="Longest wait for the node to catch up, in seconds.  [default: 10]")  # fmt: skip
def node_transfer_master(run: Run, address: tuple[str, int], name: str, timeout: int) -> int:
    """Make another node the master.

    Any node of the group, of JE or jetool, tells who the master is. That one refuses commits until the other node, an
    electable member, has everything, and then gives way. Open transactions are aborted.
    """
    transfer_master(network_of(run), address, name, timeout)
    run.out.document(TRANSFERRED, TRANSFERRED.row((name, f"{address[0]}:{address[1]}")))
    return exits.DONE
