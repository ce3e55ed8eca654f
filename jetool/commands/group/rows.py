"""Replication groups and their members."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from engine.fields import Bool, Choices, Int, Like, SizeBytes, Text, Time, Vlsn, record
from engine.format.entry.group_db import NODE_TYPES
from engine.rep.group import Membership


@record("member")
class GroupMember(NamedTuple):
    """A member of the group."""

    name: Annotated[Text | None, "its name"]
    id: Annotated[Int, "its node id, which Commits carry as master"]
    type: Annotated[Text, "its type", Choices(NODE_TYPES)]
    host: Annotated[Text | None, "where the others find it"]
    port: Annotated[Int, "its port"]
    acknowledged: Annotated[Bool, "a majority of the group has acknowledged that it is a member"]
    removed: Annotated[Bool, "it was removed; its id is never given again"]
    change_version: Annotated[Int, "change of the group at which it came"]
    barrier_time: Annotated[Time | None, "when its record was written; null in newer groups"]
    je_version: Annotated[Text | None, "release of JE that it last ran; null in old groups"]


@record()
class GroupIdentity(NamedTuple):
    """A replication group."""

    name: Annotated[Text | None, "its name"]
    uuid: Annotated[Text, "its identity; nodes of groups with different ones never talk to each other"]
    format_version: Annotated[Int, "version of the records"]
    change_version: Annotated[Int, "how many changes of membership there were"]
    last_node_id: Annotated[Int, "the highest node id that was given"]
    min_je_version: Annotated[Text | None, "least release of JE for a member; null in old groups"]


@record("group")
class StoredGroup(NamedTuple):
    """A replication group, from this node's copy of the group database."""

    name: Annotated[Text | None, Like(GroupIdentity)]
    uuid: Annotated[Text, Like(GroupIdentity)]
    format_version: Annotated[Int, Like(GroupIdentity)]
    change_version: Annotated[Int, Like(GroupIdentity)]
    last_node_id: Annotated[Int, Like(GroupIdentity)]
    min_je_version: Annotated[Text | None, Like(GroupIdentity)]
    members: Annotated[Sequence[GroupMember], "members, by id"]


@record("reset")
class NewGroup(NamedTuple):
    """The new group."""

    environment: Annotated[Text, "its directory"]
    dry_run: Annotated[Bool, "nothing was changed"]
    before: Annotated[GroupIdentity | None, "the old group; null when its record was missing"]
    after: Annotated[GroupIdentity, "the new one"]
    members_before: Annotated[Sequence[GroupMember], "members of the old group, by id"]
    members: Annotated[Sequence[GroupMember], "members of the new one"]
    first_vlsn: Annotated[Vlsn, "first VLSN of the new group; earlier entries are sent to no node"]
    backup: Annotated[Text | None, "where the old bytes were saved; null when nothing was"]
    saved_bytes: Annotated[SizeBytes, "how many"]


def identity_of(found: Membership) -> GroupIdentity:
    """Name, identity and counters of a group."""
    stored = found.group
    return GroupIdentity(
        name=stored.name,
        uuid=uuid_text(stored.uuid_high, stored.uuid_low),
        format_version=stored.format_version,
        change_version=stored.change_version,
        last_node_id=stored.last_node_id,
        min_je_version=stored.min_je_version,
    )


def uuid_text(high: int, low: int) -> str:
    """A UUID that JE keeps as two signed longs."""
    unsigned = (1 << 64) - 1
    return str(uuid.UUID(int=(high & unsigned) << 64 | (low & unsigned)))


def members_of(found: Membership) -> list[GroupMember]:
    """The members of a group, by id."""
    return [
        GroupMember(
            name=node.name,
            id=node.id,
            type=NODE_TYPES[node.type],
            host=node.host,
            port=node.port,
            acknowledged=node.quorum_ack,
            removed=node.removed,
            change_version=node.change_version,
            barrier_time=node.barrier_time or None,
            je_version=node.je_version,
        )
        for node in sorted(found.nodes, key=lambda node: node.id)
    ]
