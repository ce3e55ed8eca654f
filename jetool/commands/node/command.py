"""``jetool node run``: a node of a replication group; the other commands of the group are in ``admin``, ``records``."""

from __future__ import annotations

import signal
import threading
from typing import Any, Final

import click

from engine.format.versions import WRITTEN_VERSION
from engine.rep.acks import AckPolicy
from engine.rep.joined.config import JoinConfig
from engine.rep.joined.node import JoinedNode
from engine.rep.leading.node import LeadingConfig, LeadingNode
from engine.rep.leading.term import LeadConfig
from engine.rep.node import RepNode
from engine.rep.settings import NodeConfig
from engine.rep.syncup import DEFAULT_ROLLBACK_LIMIT
from engine.rep.wire.feeder import NO_SYNC, SYNC, WRITE_NO_SYNC
from engine.storage.disk import DiskStorage
from jetool.app import exits, params
from jetool.app.command import Outputs, command, environment
from jetool.app.networks import check_listening, network_of, refuse_tls, tls_files
from jetool.app.opening import WRITE_EXITS
from jetool.app.options import Run
from jetool.commands.node.admin import node_status, node_transfer_master
from jetool.commands.node.events import EVENT, STOPPED, RunningNode, read_election, report
from jetool.commands.node.peers import PERHAPS_SECRET, Peers, node, read_secret
from jetool.commands.node.records import node_delete, node_get, node_put

__all__ = ["node", "node_delete", "node_get", "node_put", "node_run", "node_status", "node_transfer_master"]


_OWN_GROUP: Final = "jetool"
_SECONDARY, _ELECTABLE = "secondary", "electable"
_SYNC: Final = {"sync": SYNC, "no-sync": NO_SYNC, "write-no-sync": WRITE_NO_SYNC}
# What means something in a group of jetool nodes, for a node that joins a group of JE, and for one that leads one.
_OWN, _JOINS, _LEADS = "own", "joins", "leads"
_TAKEN: Final = {
    _OWN: ("peers", "secret_file", "leads", "elect", "priority", "election_timeout", "policy", "restore"),
    _JOINS: ("leads", "node_type", "force", "restore", "plain", "priority", "policy", "replica_sync"),
    _LEADS: ("leads", "policy", "force", "plain", "replica_sync"),
}
# What a member means that may lead.
_OF_VOTERS: Final = ("leads", "priority", "policy", "replica_sync")
_FOREIGN: Final = {
    _OWN: "has no meaning without --join",
    _JOINS: "is for groups of jetool nodes; leave it out with --join",
    _LEADS: "has no meaning for the master of a group of JE; --secret-file is for groups of jetool nodes",
}


def _kind(join: tuple[tuple[str, int], ...], secret_file: str | None, *, leads: bool) -> str:
    """Whose group it is, and what the node is there."""
    if join:
        return _JOINS
    return _LEADS if leads and secret_file is None else _OWN


def _check(_: Run, *, join: tuple[tuple[str, int], ...], secret_file: str | None, **options: Any) -> None:
    options["secret_file"] = secret_file
    ctx = click.get_current_context()
    texts = {param.name: param.opts[0] for param in ctx.command.params}
    kind = _kind(join, secret_file, leads=options["leads"])
    known = dict.fromkeys(name for taken in _TAKEN.values() for name in taken)
    given = [name for name in known if options[name] not in (None, False, ()) and name not in _TAKEN[kind]]
    if given:
        raise click.UsageError(f"{texts[given[0]]} {_FOREIGN[kind]}", ctx)
    voters = [name for name in _OF_VOTERS if kind == _JOINS and options[name] not in (None, False)]
    if voters and options["node_type"] != _ELECTABLE:
        raise click.UsageError(f"{texts[voters[0]]} has no meaning with --join unless --type is {_ELECTABLE}", ctx)
    if kind == _OWN:
        refuse_tls("a node of a group of jetool nodes")
    if kind == _OWN and secret_file is None:
        raise click.UsageError("give --secret-file, or --join or --master for a group of JE", ctx)


@command(
    "run",
    parent=node,
    outputs=lambda: Outputs("stream", (EVENT,), STOPPED),
    formats=("text", "ndjson"),
    features=("fields", "times", "tls"),
    writes=True,
    check=_check,
    examples=(
        ("A node that finds its master among its peers",
         "jetool node run /data/n2 --node n2 --listen db2:5001 --peers db1:5001,db3:5001 --secret-file s"),
        ("The first master of a new group",
         "jetool node run /data/n1 --node n1 --listen db1:5001 --peers db2:5001,db3:5001 --secret-file s --master"),
        ("One of three nodes that elect their master",
         "jetool node run /data/n1 --node n1 --listen db1:5001 --peers db2:5001,db3:5001 --secret-file s --elect"),
        ("A copy of a group of JE that follows its master",
         "jetool node run /data/copy --node copy1 --listen db4:9010 --join fe1:9010,fe2:9010 --plain"),
        ("A member of a group of JE that votes, acknowledges, and leads when it is elected",
         "jetool node run /data/m2 --node m2 --listen db2:5001 --join db1:5001,db3:5001 --type electable --priority 1"
         " --plain"),
        ("The first of three such nodes, whose group is new",
         "jetool node run /data/m1 --node m1 --listen db1:5001 --join db2:5001,db3:5001 --type electable --priority 1"
         " --group STORE --master --plain"),
        ("A new group of JE, which JVMs join with this node as their helper",
         "jetool node run /data/m1 --node m1 --listen db1:5001 --group STORE --master --plain"),
    ),
    exits={
        exits.DONE: "stopped by SIGTERM; the environment is closed",
        **WRITE_EXITS,
        exits.NOT_FOUND: "--join: no node answers",
        exits.UNSUPPORTED: f"a log of a version after {WRITTEN_VERSION}; elections without pysyncobj installed; --join:"
        " a release of JE outside of 7.3 to 25.3",
        exits.REFUSED: "the environment is locked; a peer turns the node away; a rollback or restore is not allowed;"
        " the node took part in elections, and is started without --elect; --join: another group, a name that is"
        " taken, clocks too far apart; --master for a group of JE: another node is its master, has later commits, was"
        " made master meanwhile, or too few members answer",
        exits.INCOMPLETE: "the log is damaged or cannot be written, there is no room, or the address cannot be"
        " listened on",
    },
)  # fmt: skip
@environment
@click.option("--node", "name", required=True, metavar="NAME", help="Name of this node in the group.")
@click.option("--listen", type=params.HOST, required=True, help="Address by which the other nodes call this one.")
@click.option("--peers", type=Peers(), default="", help="Addresses of the other nodes.")
@PERHAPS_SECRET
@click.option("--join", type=Peers(), default="",
              help="Join a group of JE, by its own protocol: addresses of nodes; the others are found.")  # fmt: skip
@click.option("--type", "node_type", type=click.Choice([_SECONDARY, _ELECTABLE]),
              help="With --join: a secondary follows the master and has no vote; an electable one is made a member,"
              " acknowledges, votes, and with a --priority may lead.  [default: secondary]")  # fmt: skip
@click.option("--group", "group_name", metavar="NAME",
              help="The group.  [default: jetool; of JE what the environment or the nodes say]")  # fmt: skip
@click.option(
    "--master",
    "leads",
    is_flag=True,
    help="Lead: without --elect the only way to become master without a transfer."
    " Without --secret-file a group of JE: a new one, or the one of the environment when nobody else leads it."
    " With --join only a new one, when the directory is empty and none of these nodes answers.",
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
    help="With --elect or --type electable: of nodes that are equally new the highest is elected. With 0 never: while"
    " such a node alone has the newest commit, there is no master.  [default: 1; 0 in a group of JE]",
)
@click.option("--election-timeout", type=click.FloatRange(0.1, 3600), metavar="S",
              help="With --elect: a master that is silent for so many seconds is replaced; the same on all nodes."
              "  [default: 5]")  # fmt: skip
@click.option("--policy", type=click.Choice([policy.value for policy in AckPolicy]),
              help="How many replicas acknowledge a commit of the master.  [default: simple-majority]")  # fmt: skip
@click.option("--replica-sync", type=click.Choice(list(_SYNC)),
              help="In a group of JE: how durable a commit of this node has to be on replicas that acknowledge it."
              "  [default: sync]")  # fmt: skip
@click.option("--rollback-limit", type=click.IntRange(0), default=DEFAULT_ROLLBACK_LIMIT, metavar="N",
              help="Durable commits that this node may give up to join.  [default: 10]")  # fmt: skip
@click.option("--restore", is_flag=True, help="Replace the log by the master's when nothing else helps; it is kept.")
@click.option(
    "--plain",
    is_flag=True,
    help="In a group of JE, listen beyond this machine without TLS: whoever reaches the port can read all records, and"
    " join.",
)
@click.option(
    "--force",
    is_flag=True,
    help="With --join: also a release of JE outside of 7.3 to 25.3."
    " With --master for a group of JE: also when too few members answer to be elected.",
)
def node_run(
    run: Run,
    env: str,
    name: str,
    listen: tuple[str, int],
    peers: tuple[tuple[str, int], ...],
    secret_file: str | None,
    join: tuple[tuple[str, int], ...],
    node_type: str | None,
    group_name: str | None,
    leads: bool,
    elect: bool,
    priority: int | None,
    election_timeout: float | None,
    policy: str | None,
    replica_sync: str | None,
    rollback_limit: int,
    restore: bool,
    force: bool,
    plain: bool,
) -> int:
    """Run a node until SIGTERM or SIGINT.

    The directory is made when it is not there. A node that is not the master looks for it among its peers, finds where
    both logs agree, rolls back what it alone has, and replays the master's stream.

    The master is named by hand, or elected by Raft (pip install 'jetool[elect]'). A new group is made by --master; with
    --elect as soon as all nodes are there and none has anything of a group.

    With --join it is a node of a group of JE, without Java: it follows the master, whichever that is. An empty
    directory is filled by a copy of a node's log files, or from the beginning of the stream. What it has can be read
    while it runs (jetool scan, jetool get), and JE opens it afterwards as the same member. Commits are taken back only
    for a master that a majority follows. A secondary leaves no trace in the group. With --type electable the node
    becomes a member: its acknowledgements and its vote count, so that commits wait for it and elections may need it.
    With a --priority it becomes the master when it is elected, and follows again when another node is. Add --master
    on one node, and the group is made there when it does not exist yet.

    With --master and no --secret-file it leads a group of JE: nodes of JE join it as electable or secondary with its
    address as their helper, acknowledge its commits, and restore their files from it. Where the group has other
    electable nodes, it leads when a majority elects it: no other node is master, and none of them has later commits.
    When it is gone, they elect another master. It stops when they have done so while it was cut off, or when it was
    asked to give its role to another node (JE's DbGroupAdmin, which removes, deletes and moves members here, too).
    """
    running: RunningNode
    acks = AckPolicy(policy) if policy is not None else AckPolicy.SIMPLE_MAJORITY
    lead = LeadConfig(acks, replica_sync=_SYNC[replica_sync] if replica_sync is not None else SYNC)
    kind = _kind(join, secret_file, leads=leads)
    if kind != _OWN:
        check_listening(run, listen, plain=plain)
    if kind == _LEADS:
        leading = LeadingConfig(
            name, listen, group_name, lead, force=force, tls=tls_files(run),
        )  # fmt: skip
        running = LeadingNode(DiskStorage(env), leading, network_of(run), run.listener)
    elif secret_file is None:
        joining = JoinConfig(
            name, listen, join, (node_type or _SECONDARY).upper(), priority or 0, lead, leads, group_name,
            rollback_limit, restore=restore, force=force, tls=tls_files(run),
        )  # fmt: skip
        running = JoinedNode(DiskStorage(env), joining, network_of(run), run.listener)
    else:
        config = NodeConfig(
            name, listen, peers, read_secret(secret_file), group_name or _OWN_GROUP, master=leads,
            election=read_election(leads, elect, priority, election_timeout),
            policy=acks,
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
