"""Replication groups and their members as rows."""

from __future__ import annotations

import uuid
from typing import Final

from engine.format.entry.group_db import NODE_TYPES
from engine.rep.group import Membership
from jetool.output.shape import Field, Row, Shape

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


def identity_row(found: Membership) -> list[tuple[str, str, object]]:
    """Name, identity and counters of a group."""
    record = found.group
    # JE keeps a UUID as two signed longs.
    high, low = (part & (1 << 64) - 1 for part in (record.uuid_high, record.uuid_low))
    return list(_GROUP.row(
        (
            record.name, str(uuid.UUID(int=high << 64 | low)), record.format_version, record.change_version,
            record.last_node_id, record.min_je_version,
        )
    ))  # fmt: skip


def member_rows(found: Membership) -> list[Row]:
    """Its members, by id."""
    return [
        _MEMBER.row(
            (
                node.name, node.id, NODE_TYPES[node.type], node.host, node.port, node.quorum_ack, node.removed,
                node.change_version, node.barrier_time or None, node.je_version,
            )
        )
        for node in sorted(found.nodes, key=lambda node: node.id)
    ]  # fmt: skip
