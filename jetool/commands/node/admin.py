"""``jetool node transfer-master``."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import click

from engine.errors import RefusedError
from engine.fields import Bool, Int, Text, record
from engine.rep.client.master_transfer import plan_transfer, transfer_master
from jetool.commands.node.peers import node
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command
from jetool.frame.networks import network_of
from jetool.frame.options import RenamedOption, Run


@record("transferred")
class TransferRequest(NamedTuple):
    """A request to transfer the role of master."""

    group: Annotated[Text, "the group"]
    master: Annotated[Text, "the node that gives the role"]
    node: Annotated[Text, "the node that becomes the master"]
    lag: Annotated[Int | None, "by how many VLSNs it was before the master; null when unknown"]
    dry_run: Annotated[Bool, "nothing was changed"]


@command(
    "transfer-master",
    parent=node,
    outputs=lambda: Outputs("document", (TransferRequest,)),
    features=("fields", "tls", "consent"),
    examples=(
        (
            "Preview: the current master, and the state of the other node",
            "jetool node transfer-master db1:5001 --to-node n2 -n",
        ),
        (
            "Wait up to a minute for the node to catch up",
            "jetool node transfer-master db1:5001 --to-node n3 --timeout 60 --yes",
        ),
    ),
    exits={
        exits.DONE: "the node becomes the master",
        exits.NOT_FOUND: "no node answers",
        exits.REFUSED: (
            "there is no master, the master refuses, the other node is not an electable member or does not catch up, "
            "or --yes is missing"
        ),
    },
)
@click.argument("address", type=params.HOST, help="Address of a node of the group.")
@click.option(
    "--to-node",
    "name",
    cls=RenamedOption,
    old=("--to",),
    required=True,
    metavar="NAME",
    help="The node that becomes the master.",
)
@click.option(
    "--timeout",
    type=click.IntRange(1, 3600),
    default=10,
    metavar="S",
    help="Longest wait for the node to catch up, in seconds.  [default: 10]",
)
def node_transfer_master(run: Run, address: tuple[str, int], name: str, timeout: int) -> int:
    """Make another node the master.

    Any node of the group, JE or jetool, names the master. The master refuses commits until the other node, an electable
    member, has everything, and then gives up its role. Open transactions are aborted. Needs --yes.
    """
    network = network_of(run)
    plan = plan_transfer(network, address, name, timeout)
    if not run.dry_run:
        if not run.yes:
            raise RefusedError(
                f"{plan.master} would give the role of master to {plan.node}, and abort its open transactions",
                consequence="nothing was changed",
                hint="preview it with -n; add --yes to do it",
            )
        transfer_master(network, plan, timeout)
    run.out.document(
        TransferRequest(group=plan.group, master=plan.master, node=plan.node, lag=plan.lag, dry_run=run.dry_run)
    )
    return exits.DONE
