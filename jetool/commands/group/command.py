"""``jetool group``: the replication group that an environment belongs to."""

from __future__ import annotations

from typing import Final

import click

from engine.errors import NotFoundError, RefusedError, UsageError
from engine.rep.client.connection import Address
from engine.rep.client.group_state import check_group
from engine.rep.group import check_name, committed_members
from engine.rep.peers import address_text
from engine.rep.reset import reset_group
from jetool.commands.group.command_group import group
from jetool.commands.group.live_group import LiveGroupOptions, RunningGroup, show
from jetool.commands.group.membership import group_delete, group_remove, group_update_address
from jetool.commands.group.rows import NewGroup, StoredGroup, identity_of, members_of
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command, environment, environment_or
from jetool.frame.environments import READ_EXITS, WRITE_EXITS, config_of, node_address, open_to_read, reading_code
from jetool.frame.networks import network_of, refuse_tls
from jetool.frame.options import Run
from jetool.frame.repairs import repairing

__all__ = ["group", "group_delete", "group_remove", "group_reset", "group_show", "group_update_address"]

RESET: Final = "group reset"
_TIMEOUT_S: Final = 5.0


def _check_show(
    run: Run,
    *,
    env: str,
    others: tuple[Address, ...],
    name: str | None,
    watch: float | None,
    rounds: int | None,
    timeout: float,
    **options: object,
) -> None:
    """Options for a running group have no meaning for a directory."""
    if node_address(env) is None:
        given = {"group": name, "watch": watch, "rounds": rounds, **options}
        words = [
            f"--{word.replace('_', '-')}" for word, value in given.items() if value is not None and value is not False
        ]
        if others or words or timeout != _TIMEOUT_S:
            raise UsageError(
                "only a running group has several addresses and these options",
                found=", ".join([*map(address_text, others), *words]) or "--timeout",
                hint="name HOST:PORT first",
            )
        refuse_tls("the group of a directory")
        return
    if rounds is not None and watch is None:
        raise UsageError("--rounds is for --watch")
    if watch is not None and run.out.format in ("json", "csv"):
        raise UsageError(f"--watch has no end, which --format {run.out.format} needs", hint="add --format ndjson")
    if name is not None:
        check_group(name)


@command(
    "show",
    parent=group,
    check=_check_show,
    outputs=lambda: Outputs("document", (StoredGroup, RunningGroup)),
    features=("fields", "progress", "times", "tls"),
    examples=(
        ("Members of the group", "jetool group show /data/env"),
        ("Their addresses, for a script", "jetool group show /data/env --json --fields members"),
        ("The group that runs: master, states, lag", "jetool group show fe1:9010"),
        ("The same every five seconds, a line of NDJSON each", "jetool group show fe1:9010 --watch 5 --format ndjson"),
        (
            "Exit code 1 when a node is more than 10,000 VLSNs late",
            "jetool group show fe1:9010 fe2:9010 --max-lag 10000",
        ),
    ),
    exits={
        exits.DONE: "printed; for a running group: every node answers, and one is master",
        **READ_EXITS,
        exits.FINDINGS: (
            "running group: a node does not answer, there is not exactly one master, or the lag is too large; "
            "environment: printed, but the log has damage"
        ),
        exits.REFUSED: "the answering process is not a JE node, or belongs to another group",
        exits.NOT_FOUND: "no environment, or it belongs to no group; no node answers",
        exits.UNSUPPORTED: "log version not supported; --clock: a release of JE outside 7.3 to 25.3",
    },
)
@environment_or(
    "ENV|HOST:PORT", "Directory of an environment, or where a node of a running group listens; the others are found."
)
@click.argument(
    "others",
    type=params.HOST,
    metavar="[HOST:PORT]...",
    nargs=-1,
    help="Further nodes to ask if the first one does not answer.",
)
@click.option(
    "--group", "name", metavar="NAME", help="Name of the running group.  [default: as the first node reports]"
)
@click.option("--max-lag", type=click.IntRange(0), metavar="N", help="Report nodes that lag by more than N VLSNs.")
@click.option(
    "--clock",
    is_flag=True,
    help="Measure the master's clock: a node of type EXTERNAL joins briefly and writes nothing.",
)
@click.option("--force", is_flag=True, help="Measure the clock also with a JE release outside 7.3 to 25.3.")
@click.option(
    "--watch",
    type=click.FloatRange(0.1, 86_400),
    metavar="S",
    help="Query the group again every S seconds, until interrupted.",
)
@click.option("--rounds", type=click.IntRange(1), metavar="N", help="Stop --watch after N queries.")
@click.option(
    "--timeout",
    type=click.FloatRange(0.1, 600),
    default=_TIMEOUT_S,
    metavar="S",
    help="Longest wait for a connection and for each answer, in seconds.  [default: 5]",
)
def group_show(
    run: Run,
    env: str,
    others: tuple[Address, ...],
    name: str | None,
    max_lag: int | None,
    clock: bool,
    force: bool,
    watch: float | None,
    rounds: int | None,
    timeout: float,
) -> int:
    """Print a group and its members.

    For an environment: all members, including removed ones, from the node's copy of the group database. For a running
    group, by JE's own protocol and without Java: master, state of each node, VLSNs and lag, releases and load, as
    DbPing and DbGroupAdmin -dumpGroup print them. All nodes are asked at the same time. Nothing is changed.
    """
    address = node_address(env)
    if address is not None:
        return show(
            run,
            network_of(run),
            LiveGroupOptions(
                addresses=(address, *others),
                group=name,
                timeout_s=timeout,
                max_lag=max_lag,
                clock=clock,
                force=force,
                every_s=watch or 0,
                rounds=rounds or 0,
            ),
        )
    with open_to_read(run, env) as opened:
        found = committed_members(opened.engine)
    if found is None:
        raise NotFoundError(
            "the environment belongs to no replication group", file=env, hint="jetool info says what it is"
        )
    run.out.document(StoredGroup(**identity_of(found)._asdict(), members=members_of(found)))
    return reading_code(opened)


def _check(run: Run, *, env: str, name: str, node: str, **_: object) -> None:
    check_name("group", name)
    check_name("node", node)
    if not run.yes and not run.dry_run:
        raise RefusedError(
            "group reset separates this node from its group permanently",
            file=env,
            consequence="nothing was changed",
            hint="preview it with -n; add --yes to do it",
        )


@command(
    "reset",
    parent=group,
    check=_check,
    outputs=lambda: Outputs("document", (NewGroup,)),
    features=("fields", "progress", "times", "lock", "cache", "order", "write"),
    examples=(
        ("What would be done", "jetool group reset /data/env --group FE --node fe1 --address fe1:9010 -n"),
        ("Live on alone", "jetool group reset /data/env --group FE --node fe1 --address fe1:9010 --yes"),
    ),
    exits={exits.DONE: "the node is the only member of a new group, or would be", **WRITE_EXITS},
)
@environment
@click.option("--group", "name", metavar="NAME", required=True, help="Name of the new group.")
@click.option("--node", metavar="NAME", required=True, help="Name of the node in it.")
@click.option("--address", type=params.HOST, metavar="HOST:PORT", required=True, help="Address of the node.")
def group_reset(run: Run, env: str, name: str, node: str, address: tuple[str, int]) -> int:
    """Make the node the only member of a new group, as DbResetRepGroup does. Records and log are kept.

    Use it if the other members are gone for good, or for a copy that becomes independent. Unfinished transactions are
    aborted, node ids continue, and the VLSN index starts empty: a node that joins the new group gets the log files by a
    network restore. Remaining members of the old group never accept this node again. Old bytes are saved first, and
    jetool undo restores them. Needs --yes.
    """
    with repairing(run, env, RESET, config_of(run)) as repair:
        done = reset_group(repair.environment, name, node, *address)
    before, after = done.before, done.after
    run.out.document(
        NewGroup(
            environment=env,
            dry_run=run.dry_run,
            before=None if before is None else identity_of(before),
            after=identity_of(after),
            members_before=[] if before is None else members_of(before),
            members=members_of(after),
            first_vlsn=done.first_vlsn,
            backup=repair.backup,
            saved_bytes=repair.saved_bytes,
        )
    )
    return exits.DONE
