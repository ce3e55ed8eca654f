"""``jetool node run``: a node of a replication group; the other commands of the group are in ``jetool.node_admin``."""

from __future__ import annotations

import signal
import threading
import time
from typing import Final

import click

from engine.rep.acks import AckPolicy
from engine.rep.node import Node
from engine.rep.settings import NodeConfig, Role
from engine.rep.syncup import DEFAULT_ROLLBACK_LIMIT
from jetool import exits, kinds, params
from jetool.command import Outputs, command, environment
from jetool.node_admin import node_status, node_transfer_master
from jetool.node_group import SECRET, Peers, node, read_secret
from jetool.opening import WRITE_EXITS
from jetool.options import Run
from jetool.output.shape import Field, Shape

__all__ = ["node", "node_run", "node_status", "node_transfer_master"]

EVENT: Final = Shape(
    "event",
    "A node has taken up a role, or has a new reason for having none.",
    (
        Field("time", "time", "when"),
        Field("node", "text", "its name"),
        Field("role", "text", "master, replica, or unknown while it looks for the master"),
        Field("master", "text", "address of the master; null while it is not known", null=True),
        Field("last_vlsn", "vlsn", "the end of its part of the stream", null=True),
        Field("problem", "text", "why it has no master; null otherwise", null=True),
    ),
)
STOPPED: Final = Shape(
    "summary",
    "The node was stopped.",
    (Field("node", "text", "its name"), Field("last_vlsn", "vlsn", "the end of its part of the stream", null=True)),
)
_POLL_S: Final = 0.2


@command(
    "run",
    only=kinds.JE,
    parent=node,
    outputs=lambda: Outputs("stream", (EVENT,), STOPPED),
    formats=("text", "ndjson"),
    features=("fields", "times"),
    examples=(
        ("A node that finds its master among its peers",
         "jetool node run /data/n2 --node n2 --listen db2:5001 --peers db1:5001,db3:5001 --secret-file s"),
        ("The first master of a new group",
         "jetool node run /data/n1 --node n1 --listen db1:5001 --peers db2:5001,db3:5001 --secret-file s --master"),
    ),
    exits={
        exits.DONE: "stopped by SIGTERM; the environment is closed",
        **WRITE_EXITS,
        exits.REFUSED: "the environment is locked; a peer turns the node away; a rollback or restore is not allowed",
        exits.INCOMPLETE: "the log is damaged or cannot be written, or the address cannot be listened on",
    },
)  # fmt: skip
@environment
@click.option("--node", "name", required=True, metavar="NAME", help="Name of this node in the group.")
@click.option("--listen", type=params.HOST, required=True, help="Address by which the other nodes call this one.")
@click.option("--peers", type=Peers(), default="", help="Addresses of the other nodes.")
@SECRET
@click.option("--group", "group_name", metavar="NAME", default="jetool", help="The group.  [default: jetool]")
@click.option("--master", "leads", is_flag=True, help="Lead: the only way to become master without a transfer.")
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
    policy: str,
    rollback_limit: int,
    restore: bool,
) -> int:
    """Run a node until SIGTERM or SIGINT.

    The directory is made when it is not there. A node that is not the master looks for it among its peers, finds where
    both logs agree, rolls back what it alone has, and replays the master's stream.
    """
    config = NodeConfig(
        name, listen, peers, read_secret(secret_file), group_name, master=leads, policy=AckPolicy(policy),
        rollback_limit=rollback_limit, restore=restore,
    )  # fmt: skip
    running = Node(env, config, run.listener)
    stopping = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    try:
        running.start()
        _report(run, running, stopping)
    finally:
        running.stop()
        signal.signal(signal.SIGTERM, before)
    if running.failure is not None:
        raise running.failure
    return exits.DONE


def _report(run: Run, running: Node, stopping: threading.Event) -> None:
    """Print changes of role, and of the reason for having no master, until the node ends."""
    said: tuple[Role, str, str | None] | None = None
    with run.out.stream(EVENT) as events:
        while not stopping.is_set() and running.failure is None:
            status = running.status()
            problem = running.problem if running.role is Role.UNKNOWN else None
            now = (running.role, status.master, str(problem) if problem is not None else None)
            if now != said:
                said = now
                row = (
                    int(time.time() * 1000),
                    status.node,
                    status.role,
                    status.master or None,
                    status.last_vlsn,
                    now[2],
                )
                events.row("event", EVENT.row(row))
                events.flush()
            running.await_end(_POLL_S)
        status = running.status()
        events.end(STOPPED.row((status.node, status.last_vlsn)))
