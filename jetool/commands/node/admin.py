"""``jetool node status`` and ``transfer-master``: questions and requests to running nodes."""

from __future__ import annotations

from typing import Final

import click

from engine.errors import NotFoundError
from engine.format.vlsn import NULL_VLSN
from engine.rep.client.transferring import transfer_master
from engine.rep.frames import PeerError
from engine.rep.messages import NodeStatus
from engine.rep.operator import ask_status, ask_transfer
from engine.rep.settings import Role
from jetool.app import exits, params
from jetool.app.command import Outputs, command
from jetool.app.networks import network_of, refuse_tls
from jetool.app.options import Run
from jetool.commands.node.peers import PERHAPS_SECRET, SECRET, node, read_secret
from jetool.output.shape import Field, Shape

STATUS: Final = Shape(
    "node",
    "One node.",
    (
        Field("address", "text", "where it was asked"),
        Field("group", "text", "name of the group", null=True),
        Field("node", "text", "its name; null when it does not answer", null=True),
        Field("role", "text", "master, replica, unknown; null when it does not answer", null=True),
        Field("master", "text", "address of the master that it knows", null=True),
        Field("first_vlsn", "vlsn", "the beginning of its part of the stream", null=True),
        Field("last_vlsn", "vlsn", "the end of it", null=True),
        Field("last_sync", "vlsn", "its last possible matchpoint", null=True),
        Field("last_txn_end", "vlsn", "its last Commit or Abort", null=True),
        Field("dtvlsn", "vlsn", "what it knows to be durable on a majority", null=True),
        Field("term", "int", "the highest that it knows; null where masters are named by hand", null=True),
        Field("priority", "int", "its own in elections; null where there are none", null=True),
        Field("replicas", "texts", "of a master: node, acknowledged VLSN, and whether it is connected"),
        Field("problem", "text", "why it does not answer; null otherwise", null=True),
    ),
)
TRANSFERRED: Final = Shape(
    "transferred",
    "The request for another master.",
    (Field("node", "text", "the node that becomes the master"), Field("asked", "text", "the node that was asked")),
)


@command(
    "status",
    parent=node,
    outputs=lambda: Outputs("table", (STATUS,)),
    features=("fields",),
    examples=(
        ("Who is master, and how far the others are", "jetool node status db1:5001 db2:5001 --secret-file s"),
        ("For a script", "jetool node status db1:5001 --secret-file s --format ndjson --fields node,role,last_vlsn"),
    ),
    exits={
        exits.DONE: "all answer, and one of them is the master",
        exits.FINDINGS: "a node does not answer, or not exactly one is the master",
        exits.REFUSED: "others can read the file with the secret",
        exits.NOT_FOUND: "none answers; no file with the secret",
        exits.INCOMPLETE: "the file with the secret cannot be read",
    },
)
@click.argument("addresses", type=params.HOST, nargs=-1, required=True, help="Where the nodes listen.")
@SECRET
def node_status(run: Run, addresses: tuple[tuple[str, int], ...], secret_file: str) -> int:
    """Ask nodes for their role and how far they are."""
    secret = read_secret(secret_file)
    found: list[NodeStatus] = []
    rows, problem = [], ""
    for address in addresses:
        place = f"{address[0]}:{address[1]}"
        try:
            status = ask_status(address, secret)
        # A node that does not answer is a row: whether the others do is what the operator asks.
        except PeerError as error:
            problem = str(error)
            rows.append(STATUS.row((place, *[None] * 4, *[NULL_VLSN] * 5, None, None, [], problem)))
            continue
        found.append(status)
        replicas = [f"{r.node} {r.acked_vlsn} {'connected' if r.connected else 'gone'}" for r in status.replicas]
        elections = (status.term, status.priority) if status.elects else (None, None)
        rows.append(STATUS.row((place, *status[:3], status.master or None, *status[4:9], *elections, replicas, None)))
    if not found:
        raise NotFoundError("no node answers", found=problem, hint="check the addresses and the secret")
    run.out.table(STATUS, rows)
    masters = sum(status.role == Role.MASTER.value for status in found)
    # Two masters are as alarming as none: an old one may have been cut off.
    return exits.DONE if masters == 1 and len(found) == len(addresses) else exits.FINDINGS


@command(
    "transfer-master",
    parent=node,
    outputs=lambda: Outputs("document", (TRANSFERRED,)),
    features=("fields", "tls"),
    examples=(
        ("Another master", "jetool node transfer-master db1:5001 --to n2 --secret-file s"),
        ("In a group of JE, asked at any of its nodes", "jetool node transfer-master fe1:9010 --to n2"),
        ("The master is gone: ask the new one itself",
         "jetool node transfer-master db2:5001 --to n2 --force --secret-file s"),
    ),
    exits={
        exits.DONE: "the node becomes the master",
        exits.NOT_FOUND: "no file with the secret; in a group of JE: no node answers",
        exits.INCOMPLETE: "the file with the secret cannot be read",
        exits.REFUSED: "the node is not the master, cannot be reached, or the other one does not catch up",
    },
)  # fmt: skip
@click.argument("address", type=params.HOST, help="The master; with --force the node concerned.")
@click.option("--to", "name", required=True, metavar="NAME", help="The node that shall become the master.")
@click.option("--force", is_flag=True,
              help="Wait for nobody. Asked of the new master, it takes the role: commits that it lacks are lost, so"
              " compare last_vlsn of all nodes first. Asked of an old master, it gives the role up. Where masters are"
              " elected, ask the new master: it stands at once, and needs the votes of a majority.")  # fmt: skip
@click.option("--timeout", type=click.IntRange(1, 3600), default=10, metavar="S",
              help="Longest wait for the node to catch up, in seconds.  [default: 10]")  # fmt: skip
@PERHAPS_SECRET
def node_transfer_master(
    run: Run, address: tuple[str, int], name: str, force: bool, timeout: int, secret_file: str | None
) -> int:
    """Make another node the master.

    The master refuses commits until the other node has everything, and then gives way. Open transactions are aborted.
    An old master that was cut off while another one took over has to be asked with --force to give way, unless
    masters are elected: then it gives way by itself.

    Without --secret-file it is a group of JE, whatever its nodes are: any of them tells who the master is, and that is
    asked to give its role to an electable member.
    """
    if secret_file is not None:
        refuse_tls("a node of a group of jetool nodes")
        ask_transfer(address, read_secret(secret_file), name, force=force, timeout_s=timeout)
    elif force:
        raise click.UsageError("--force is for groups of jetool nodes: give --secret-file", click.get_current_context())
    else:
        transfer_master(network_of(run), address, name, timeout)
    run.out.document(TRANSFERRED, TRANSFERRED.row((name, f"{address[0]}:{address[1]}")))
    return exits.DONE
