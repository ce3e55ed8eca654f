"""``jetool node run``: a node of a replication group; the other commands of the group are in ``admin``, ``records``."""

from __future__ import annotations

import signal
import threading

import click

from engine.format.versions import WRITTEN_VERSION
from engine.rep.acks import AckPolicy
from engine.rep.node import RepNode
from engine.rep.settings import NodeConfig
from engine.rep.syncup import DEFAULT_ROLLBACK_LIMIT
from jetool.app import exits, params
from jetool.app.command import Outputs, command, environment
from jetool.app.opening import WRITE_EXITS
from jetool.app.options import Run
from jetool.commands.node.admin import node_status, node_transfer_master
from jetool.commands.node.events import EVENT, STOPPED, read_election, report
from jetool.commands.node.peers import SECRET, Peers, node, read_secret
from jetool.commands.node.records import node_delete, node_get, node_put

__all__ = ["node", "node_delete", "node_get", "node_put", "node_run", "node_status", "node_transfer_master"]


@command(
    "run",
    parent=node,
    outputs=lambda: Outputs("stream", (EVENT,), STOPPED),
    formats=("text", "ndjson"),
    features=("fields", "times"),
    writes=True,
    examples=(
        ("A node that finds its master among its peers",
         "jetool node run /data/n2 --node n2 --listen db2:5001 --peers db1:5001,db3:5001 --secret-file s"),
        ("The first master of a new group",
         "jetool node run /data/n1 --node n1 --listen db1:5001 --peers db2:5001,db3:5001 --secret-file s --master"),
        ("One of three nodes that elect their master",
         "jetool node run /data/n1 --node n1 --listen db1:5001 --peers db2:5001,db3:5001 --secret-file s --elect"),
    ),
    exits={
        exits.DONE: "stopped by SIGTERM; the environment is closed",
        **WRITE_EXITS,
        exits.UNSUPPORTED: f"a log of a version after {WRITTEN_VERSION}; elections without pysyncobj installed",
        exits.REFUSED: "the environment is locked; a peer turns the node away; a rollback or restore is not allowed;"
        " the node took part in elections, and is started without --elect",
        exits.INCOMPLETE: "the log is damaged or cannot be written, or the address cannot be listened on",
    },
)  # fmt: skip
@environment
@click.option("--node", "name", required=True, metavar="NAME", help="Name of this node in the group.")
@click.option("--listen", type=params.HOST, required=True, help="Address by which the other nodes call this one.")
@click.option("--peers", type=Peers(), default="", help="Addresses of the other nodes.")
@SECRET
@click.option("--group", "group_name", metavar="NAME", default="jetool", help="The group.  [default: jetool]")
@click.option(
    "--master", "leads", is_flag=True, help="Lead: without --elect the only way to become master without a transfer."
)
@click.option(
    "--elect",
    is_flag=True,
    help="Elect the master: all nodes are started so, each with all others in --peers. The node with the"
    " newest commit is elected by a majority, and replaced when a majority misses it.",
)
@click.option(
    "--priority",
    type=click.IntRange(0, (1 << 31) - 1),
    metavar="N",
    help="With --elect: of nodes that are equally new the highest is elected. With 0 never: while such a"
    " node alone has the newest commit, there is no master.  [default: 1]",
)
@click.option("--election-timeout", type=click.FloatRange(0.1, 3600), metavar="S",
              help="With --elect: a master that is silent for so many seconds is replaced; the same on all nodes."
              "  [default: 5]")  # fmt: skip
@click.option("--policy", type=click.Choice([policy.value for policy in AckPolicy]), default="simple-majority",
              help="How many replicas acknowledge a commit of the master.  [default: simple-majority]")  # fmt: skip
@click.option("--rollback-limit", type=click.IntRange(0), default=DEFAULT_ROLLBACK_LIMIT, metavar="N",
              help="Durable commits that this node may give up to join.  [default: 10]")  # fmt: skip
@click.option("--restore", is_flag=True, help="Replace the log by the master's when nothing else helps; it is kept.")
def node_run(
    run: Run,
    env: str,
    name: str,
    listen: tuple[str, int],
    peers: tuple[tuple[str, int], ...],
    secret_file: str,
    group_name: str,
    leads: bool,
    elect: bool,
    priority: int | None,
    election_timeout: float | None,
    policy: str,
    rollback_limit: int,
    restore: bool,
) -> int:
    """Run a node until SIGTERM or SIGINT.

    The directory is made when it is not there. A node that is not the master looks for it among its peers, finds where
    both logs agree, rolls back what it alone has, and replays the master's stream.

    The master is named by hand, or elected by Raft (pip install 'jetool[elect]'). A new group is made by --master; with
    --elect as soon as all nodes are there and none has anything of a group.
    """
    config = NodeConfig(
        name, listen, peers, read_secret(secret_file), group_name, master=leads,
        election=read_election(leads, elect, priority, election_timeout), policy=AckPolicy(policy),
        rollback_limit=rollback_limit, restore=restore,
    )  # fmt: skip
    running = RepNode(env, config, run.listener)
    stopping = threading.Event()
    # Here SIGTERM is the ordinary end: the node closes its environment, and the code is 0.
    before = signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    try:
        running.start()
        report(run, running, stopping)
    finally:
        # Also after a failure: the environment is closed and its lock given back.
        running.stop()
        signal.signal(signal.SIGTERM, before)
    # The node runs in threads of its own; what ended it is raised here.
    if running.failure is not None:
        raise running.failure
    return exits.DONE
