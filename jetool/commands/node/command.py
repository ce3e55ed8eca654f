"""``jetool node run``: a node of a replication group; the other commands of the group are in ``admin``, ``records``."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any, Final

import click
from click.core import ParameterSource

from engine.db.config import EnvironmentConfig
from engine.errors import RefusedError
from engine.format.versions import JE_RELEASES, NEWEST_VERSION, WRITTEN_VERSION
from engine.monitor.stat_capture import StatCapture, capture_until
from engine.rep.acks import AckPolicy
from engine.rep.arbiter.arbiter_file import is_arbiters
from engine.rep.arbiter.arbiter_node import ArbiterNode
from engine.rep.client.handshake import ARBITER, ELECTABLE, SECONDARY
from engine.rep.master.term import LeadConfig
from engine.rep.member.config import JoinConfig
from engine.rep.member.node import JoinedNode
from engine.rep.wire.feeder import NO_SYNC, SYNC, WRITE_NO_SYNC
from engine.storage.disk import DiskStorage
from engine.vlsn.syncup_decision import DEFAULT_ROLLBACK_LIMIT
from jetool.commands.node.admin import node_transfer_master
from jetool.commands.node.events import NodeLike, RoleChange, StoppedNode, report
from jetool.commands.node.peers import Peers, node
from jetool.commands.node.records import node_delete, node_get, node_put
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command, environment
from jetool.frame.environments import WRITE_EXITS
from jetool.frame.networks import check_listening, network_of, tls_files
from jetool.frame.options import RenamedOption, Run

__all__ = ["node", "node_delete", "node_get", "node_put", "node_run", "node_transfer_master"]

_SYNC: Final = {"sync": SYNC, "no-sync": NO_SYNC, "write-no-sync": WRITE_NO_SYNC}
# Options that have a meaning only for a member that may become master.
_OF_VOTERS: Final = ("leads", "priority", "policy", "replica_sync")
# Options that have a meaning only for a node with a log.
_OF_LOGS: Final = ("rollback_limit", "restore", "log_version", "stat_interval")


def _check(_: Run, *, join: tuple[tuple[str, int], ...], **options: Any) -> None:
    ctx = click.get_current_context()
    texts = {param.name: param.opts[0] for param in ctx.command.params}
    if not join and not options["leads"]:
        raise click.UsageError("give --join, or --lead to create or lead a group", ctx)
    voters = [name for name in _OF_VOTERS if options[name] not in (None, False)]
    if voters and _type_of(join, options["node_type"]) != ELECTABLE:
        raise click.UsageError(f"{texts[voters[0]]} has no meaning unless --node-type is {ELECTABLE.lower()}", ctx)
    given = [name for name in _OF_LOGS if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if given and _type_of(join, options["node_type"]) == ARBITER:
        raise click.UsageError(f"{texts[given[0]]} has no meaning for an arbiter, which has no log", ctx)


def _type_of(join: tuple[tuple[str, int], ...], given: str | None) -> str:
    """The type of the node. The first node of a group is not a secondary."""
    return given.upper() if given is not None else SECONDARY if join else ELECTABLE


@command(
    "run",
    parent=node,
    outputs=lambda: Outputs("stream", (RoleChange,), StoppedNode),
    formats=("text", "ndjson"),
    features=("fields", "times", "tls"),
    writes=True,
    check=_check,
    examples=(
        (
            "A member that votes, acknowledges, and leads when it is elected",
            "jetool node run /data/n2 --node n2 --listen db2:5001 --join db1:5001,db3:5001 --node-type electable"
            " --priority 1 --plain",
        ),
        (
            "The first of three such nodes, whose group is new",
            "jetool node run /data/n1 --node n1 --listen db1:5001 --join db2:5001,db3:5001 --node-type electable"
            " --priority 1 --group STORE --lead --plain",
        ),
        (
            "A copy of a group of JE that follows its master",
            "jetool node run /data/copy --node copy1 --listen db4:9010 --join fe1:9010,fe2:9010 --plain",
        ),
        (
            "The arbiter of a group of two electable nodes",
            "jetool node run /data/a1 --node a1 --listen db3:5001 --join db1:5001,db2:5001 --node-type arbiter --plain",
        ),
        (
            "A new group, which others may join",
            "jetool node run /data/m1 --node m1 --listen db1:5001 --group STORE --lead --plain",
        ),
    ),
    exits={
        exits.DONE: "stopped by SIGTERM; the environment is closed",
        **WRITE_EXITS,
        exits.NOT_FOUND: "--join as a secondary for the first time: no node answers",
        exits.UNSUPPORTED: "a master of a release of JE outside of 7.3 to 25.3",
        exits.REFUSED: "the environment is locked; a rollback or restore is not allowed; another group, a name that is"
        " taken, clocks too far apart; --lead without --join: the group does not know the node at this address",
        exits.INCOMPLETE: "the log is damaged or cannot be written, there is no room, or the address cannot be"
        " listened on",
    },
)
@environment
@click.option("--node", "name", required=True, metavar="NAME", help="Name of this node in the group.")
@click.option("--listen", type=params.HOST, required=True, help="Address at which other nodes reach this one.")
@click.option(
    "--join",
    type=Peers(),
    default="",
    help="Join a group: addresses of some of its nodes, JE or jetool; the node finds the others.",
)
@click.option(
    "--node-type",
    "node_type",
    cls=RenamedOption,
    old=("--type",),
    type=click.Choice([SECONDARY.lower(), ELECTABLE.lower(), ARBITER.lower()]),
    help="A secondary follows the master and has no vote; an electable node becomes a member, acknowledges, "
    "votes, and with a --priority may become master; an arbiter becomes a member without a log, and votes.  "
    "[default: secondary; without --join electable]",
)
@click.option("--group", "group_name", metavar="NAME", help="The group.  [default: from the environment or the nodes]")
@click.option(
    "--lead",
    "leads",
    cls=RenamedOption,
    old=("--master",),
    is_flag=True,
    help="If the directory has no group and no node of --join answers, create the group as its master. Omit "
    "this option once the group exists. Without --join, the other members are taken from the environment.",
)
@click.option(
    "--priority",
    type=click.IntRange(0, (1 << 31) - 1),
    metavar="N",
    help="Among equally up-to-date electable nodes the one with the highest priority is elected. A node with 0 "
    "is never elected: while only it has the newest commit, there is no master.  [default: 0; without "
    "--join 1]",
)
@click.option(
    "--policy",
    type=click.Choice([policy.value for policy in AckPolicy]),
    help="The replicas that acknowledge a commit of the master.  [default: simple-majority]",
)
@click.option(
    "--replica-sync",
    type=click.Choice(list(_SYNC)),
    help="Durability of this node's commits on the replicas that acknowledge them.  [default: sync]",
)
@click.option(
    "--rollback-limit",
    type=click.IntRange(0),
    default=DEFAULT_ROLLBACK_LIMIT,
    metavar="N",
    help="Durable commits that this node may roll back to join.  [default: 10]",
)
@click.option(
    "--restore",
    is_flag=True,
    help="Replace the log by the master's if the node cannot join otherwise; the old log is kept.",
)
@click.option(
    "--log-version",
    type=click.IntRange(WRITTEN_VERSION, NEWEST_VERSION),
    metavar="N",
    default=WRITTEN_VERSION,
    help=f"Version of a new log: {WRITTEN_VERSION} for JE 18.3 and later, {NEWEST_VERSION} for JE "
    f"{JE_RELEASES[NEWEST_VERSION]} and later. It is at least the version of the master's log; an existing log keeps "
    f"its own.  [default: {WRITTEN_VERSION}]",
)
@click.option(
    "--plain",
    is_flag=True,
    help="Listen beyond this machine without TLS: anyone who can reach the port can read all records and join "
    "the group.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Also accept a master with a JE release outside 7.3 to 25.3. With --lead and without --join: become "
    "master, once, even if too few members answer for an election. No member that answers may have a "
    "master or later commits.",
)
@click.option(
    "--stat-interval",
    type=click.FloatRange(0.1, 86_400),
    metavar="S",
    help="Append statistics to je.stat.csv in the directory every S seconds, for jetool info --stats-file.",
)
def node_run(
    run: Run,
    env: str,
    name: str,
    listen: tuple[str, int],
    join: tuple[tuple[str, int], ...],
    node_type: str | None,
    group_name: str | None,
    leads: bool,
    priority: int | None,
    policy: str | None,
    replica_sync: str | None,
    rollback_limit: int,
    restore: bool,
    force: bool,
    log_version: int,
    plain: bool,
    stat_interval: float | None,
) -> int:
    """Run a node until SIGTERM or SIGINT.

    Nodes speak the replication protocol of JE: a group may consist of JVMs, of jetool nodes, or of both. The directory
    is created if needed. The records of a running node can be read (jetool scan, jetool get), and JE can later open the
    environment as the same member.

    With --join the node follows the current master. An empty directory is filled by a copy of a node's log files, or
    from the beginning of the stream. The node rolls back commits only for a master with a majority. A secondary is not
    recorded in the group. With --node-type electable the node becomes a member: its acknowledgements and its vote
    count, so commits wait for it and elections may need it. With a --priority it can be elected master. It follows
    again when another node is elected, or when its role is transferred (jetool node transfer-master, or JE's
    DbGroupAdmin, which can also remove, delete and move members). With --lead on one node, that node creates the group
    if it does not exist yet.

    An arbiter keeps no log, only the last commit that it acknowledged, as JE's arbiter does: jetool-replication(7).

    With --lead and without --join the node is a member of a new group, or of the group in its environment. A node
    that is alone in its group becomes master at once, and others join with its address; otherwise a majority has to
    elect it.
    """
    acks = AckPolicy(policy) if policy is not None else AckPolicy.SIMPLE_MAJORITY
    lead = LeadConfig(acks, replica_sync=_SYNC[replica_sync] if replica_sync is not None else SYNC)
    check_listening(run, listen, plain=plain)
    joining = JoinConfig(
        name,
        listen,
        join,
        _type_of(join, node_type),
        priority if priority is not None else 0 if join else 1,
        lead,
        leads,
        group_name,
        rollback_limit,
        restore=restore,
        force=force,
        unelected=force and not join,
        environment=EnvironmentConfig(log_version=log_version),
        tls=tls_files(run),
    )
    _run_node(run, env, joining, stat_interval)
    return exits.DONE


def _run_node(run: Run, env: str, joining: JoinConfig, stat_interval: float | None) -> None:
    storage = DiskStorage(env)
    if joining.node_type == ARBITER:
        _run_until_stopped(run, ArbiterNode(storage, joining, network_of(run)))
        return
    if is_arbiters(storage):
        raise RefusedError(
            "the directory is that of an arbiter",
            file=env,
            consequence="nothing was changed",
            hint=f"give the node a directory of its own, or --node-type {ARBITER.lower()}",
        )
    running = JoinedNode(storage, joining, network_of(run), run.listener)

    def capture(stopping: threading.Event) -> None:
        if stat_interval is not None:
            threading.Thread(target=_capture, args=(run, running, env, stopping, stat_interval), daemon=True).start()

    _run_until_stopped(run, running, capture)


def _run_until_stopped(run: Run, running: NodeLike, begin: Callable[[threading.Event], None] = lambda _: None) -> None:
    """Run a node until SIGTERM; raises the error if it failed earlier.

    Arguments:
        begin: called first, with the event that ends the node.
    """
    stopping = threading.Event()
    begin(stopping)
    # SIGTERM is the normal end: the node closes its environment, and the exit code is 0.
    before = signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    try:
        running.start()
        report(run, running, stopping)
    finally:
        # Close the environment and release its lock, also after a failure.
        stopping.set()
        running.stop()
        signal.signal(signal.SIGTERM, before)
    # The node runs in its own threads; raise the error that ended it.
    if running.failure is not None:
        raise running.failure


def _capture(run: Run, running: JoinedNode, env: str, stopping: threading.Event, interval_s: float) -> None:
    """Write statistics until the node stops; a failure is a warning, since the node needs no statistics."""
    capture = StatCapture(DiskStorage(env))
    error = capture_until(stopping, capture, lambda: running.environment.stats(), interval_s)
    if error is not None:
        run.messages.warning(f"statistics are no longer written: {error.what}", file=env)
