"""``jetool group``: the replication group that an environment belongs to."""

from __future__ import annotations

import uuid
from typing import Final

import click

from engine.db.config import EnvironmentConfig
from engine.errors import NotFoundError, RefusedError
from engine.format.entry.group_db import NODE_TYPES
from engine.rep.group import Membership, committed_members
from engine.rep.reset import reset_group
from jetool import exits, kinds, params
from jetool.command import Outputs, command, environment
from jetool.command import group as command_group
from jetool.opening import READ_EXITS, WRITE_EXITS, open_to_read, reading_code
from jetool.options import Run
from jetool.output.shape import Field, Shape
from jetool.output.values import Row
from jetool.repairs import repairing

RESET: Final = "group reset"
_MEMBER: Final = Shape(
    "member",
    "A member of the group.",
    (
        Field("name", "text", "its name", null=True),
        Field("id", "int", "its node id, which Commits carry as master"),
        Field("type", "text", "its type", choices=NODE_TYPES),
        Field("host", "text", "where the others find it", null=True),
        Field("port", "int", "its port"),
        Field("acknowledged", "bool", "a majority of the group has acknowledged that it is a member"),
        Field("removed", "bool", "it was removed; its id is never given again"),
        Field("change_version", "int", "change of the group at which it came"),
        Field("barrier_time", "time", "when its record was written; null in newer groups", null=True),
        Field("je_version", "text", "release of JE that it last ran; null in old groups", null=True),
    ),
)
_IDENTITY: Final = (
    Field("name", "text", "its name", null=True),
    Field("uuid", "text", "its identity; nodes of groups with different ones never talk to each other"),
    Field("format_version", "int", "version of the records"),
    Field("change_version", "int", "how many changes of membership there were"),
    Field("last_node_id", "int", "the highest node id that was given"),
    Field("min_je_version", "text", "least release of JE for a member; null in old groups", null=True),
)
_GROUP: Final = Shape("identity", "A replication group.", _IDENTITY)
GROUP: Final = Shape(
    "group",
    "A replication group, as this node has it.",
    (*_IDENTITY, Field("members", "records", "members, by id", fields=_MEMBER.fields)),
)
RESET_DONE: Final = Shape(
    "reset",
    "The new group.",
    (
        Field("environment", "text", "its directory"),
        Field("dry_run", "bool", "nothing was changed"),
        Field("before", "record", "the old group; null when its record was missing", null=True, fields=_IDENTITY),
        Field("after", "record", "the new one", fields=_IDENTITY),
        Field("members_before", "records", "members of the old group, by id", fields=_MEMBER.fields),
        Field("members", "records", "members of the new one", fields=_MEMBER.fields),
        Field("first_vlsn", "vlsn", "first VLSN of the new group; what lies before is not sent to anybody"),
        Field("backup", "text", "where the old bytes were saved; null when nothing was", null=True),
        Field("saved_bytes", "size_bytes", "how many"),
    ),
)

group = command_group(
    "group",
    help="The replication group that an environment belongs to.",
    examples=(("Its members", "jetool group show /data/env"),),
)


@command(
    "show",
    only=kinds.JE,
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
        found = committed_members(opened)
    if found is None:
        raise NotFoundError(
            "the environment belongs to no replication group", file=env, hint="jetool info says what it is"
        )
    run.out.document(GROUP, [*_identity(found), ("members", "records", _members(found))])
    return reading_code(opened)


@command(
    "reset",
    only=kinds.JE,
    parent=group,
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
    if not run.yes and not run.dry_run:
        raise RefusedError(
            "group reset parts this node from its group for good",
            file=env,
            consequence="nothing was changed",
            hint="preview it with -n; add --yes to do it",
        )
    with repairing(run, env, RESET, EnvironmentConfig()) as repair:
        done = reset_group(repair.environment, name, node, *address)
    before, after = done.before, done.after
    row = (
        env, run.dry_run, None if before is None else _identity(before), _identity(after),
        [] if before is None else _members(before), _members(after), done.first_vlsn, repair.backup,
        repair.saved_bytes,
    )  # fmt: skip
    run.out.document(RESET_DONE, RESET_DONE.row(row))
    return exits.DONE


def _identity(found: Membership) -> Row:
    record = found.group
    high, low = (part & (1 << 64) - 1 for part in (record.uuid_high, record.uuid_low))
    return _GROUP.row(
        (
            record.name, str(uuid.UUID(int=high << 64 | low)), record.format_version, record.change_version,
            record.last_node_id, record.min_je_version,
        )
    )  # fmt: skip


def _members(found: Membership) -> list[Row]:
    return [
        _MEMBER.row(
            (
                node.name, node.id, NODE_TYPES[node.type], node.host, node.port, node.quorum_ack, node.removed,
                node.change_version, node.barrier_time or None, node.je_version,
            )
        )
        for node in sorted(found.nodes, key=lambda node: node.id)
    ]  # fmt: skip
