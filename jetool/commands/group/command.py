"""``jetool group``: the replication group that an environment belongs to."""

from __future__ import annotations

from typing import Final

import click

from engine.db.config import EnvironmentConfig
from engine.errors import NotFoundError, RefusedError
from engine.rep.group import check_name, committed_members
from engine.rep.reset import reset_group
from jetool.app import exits, params
from jetool.app.command import Outputs, command, environment
from jetool.app.command import group as command_group
from jetool.app.opening import READ_EXITS, WRITE_EXITS, open_to_read, reading_code
from jetool.app.options import Run
from jetool.app.repairs import repairing
from jetool.commands.group.rows import GROUP, RESET_DONE, identity_row, member_rows

RESET: Final = "group reset"

group = command_group(
    "group",
    help="The replication group that an environment belongs to.",
    examples=(("Its members", "jetool group show /data/env"),),
)


@command(
    "show",
    parent=group,
    outputs=lambda: Outputs("document", (GROUP,)),
    features=("fields", "progress", "times"),
    examples=(
        ("Members of the group", "jetool group show /data/env"),
        ("Their addresses, for a script", "jetool group show /data/env --json --fields members"),
    ),
    exits={exits.DONE: "printed", **READ_EXITS, exits.NOT_FOUND: "no environment, or it belongs to no group"},
)
@environment
def group_show(run: Run, env: str) -> int:
    """Print the group and its members, removed ones too, from the node's copy of the group database."""
    with open_to_read(run, env) as opened:
        found = committed_members(opened.engine)
    if found is None:
        raise NotFoundError(
            "the environment belongs to no replication group", file=env, hint="jetool info says what it is"
        )
    run.out.document(GROUP, [*identity_row(found), ("members", "records", member_rows(found))])
    return reading_code(opened)


def _check(run: Run, *, env: str, name: str, node: str, **_: object) -> None:
    check_name("group", name)
    check_name("node", node)
    if not run.yes and not run.dry_run:
        raise RefusedError(
            "group reset parts this node from its group for good",
            file=env,
            consequence="nothing was changed",
            hint="preview it with -n; add --yes to do it",
        )


@command(
    "reset",
    parent=group,
    check=_check,
    outputs=lambda: Outputs("document", (RESET_DONE,)),
    features=("fields", "progress", "times", "lock", "write"),
    examples=(
        ("What would be done", "jetool group reset /data/env --group FE --node fe1 --address fe1:9010 -n"),
        ("Live on alone", "jetool group reset /data/env --group FE --node fe1 --address fe1:9010 --yes"),
    ),
    exits={exits.DONE: "the node is the only member of a new group, or would be", **WRITE_EXITS},
)
@environment
@click.option("--group", "name", metavar="NAME", required=True, help="Name of the new group.")
@click.option("--node", metavar="NAME", required=True, help="Name of the node in it.")
@click.option("--address", type=params.HOST, metavar="HOST:PORT", required=True, help="Where others find the node.")
def group_reset(run: Run, env: str, name: str, node: str, address: tuple[str, int]) -> int:
    """Make the node the only member of a new group, as DbResetRepGroup does; records and log stay.

    For when the other members are gone for good, or for a copy that is to live by itself. Work that was in flight is
    aborted, node ids go on, and the VLSN index begins anew: a node of the new group gets the log files by a network
    restore. The other members of the old group, if any are left, never talk to this node again. Old bytes are saved
    first: jetool undo takes it all back. Needs --yes.
    """
    with repairing(run, env, RESET, EnvironmentConfig()) as repair:
        done = reset_group(repair.environment, name, node, *address)
    before, after = done.before, done.after
    row = (
        env, run.dry_run, None if before is None else identity_row(before), identity_row(after),
        [] if before is None else member_rows(before), member_rows(after), done.first_vlsn, repair.backup,
        repair.saved_bytes,
    )  # fmt: skip
    run.out.document(RESET_DONE, RESET_DONE.row(row))
    return exits.DONE
