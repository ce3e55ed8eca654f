"""The members of a replication group, kept in the replicated database ``_jeRepGroupDB`` (je-log-format.md 11.4).

Every node has the same copy, since changes travel in the stream. The first node makes the group; the master adds a
member when it connects for the first time.

* VLSN 1 and 2 of every group are the NameLN and the Commit that make the database, with id -257.
* ``change_version`` of the group counts changes of membership; a node's is the one at which it came.
* Node ids are given out ascending from 1 and never again; a removed member keeps its record.

Example, the first node::

    VLSN 1 NameLN_TX -11 _jeRepGroupDB | 2 Commit -11 | 3 INS_LN_TX -12 $$GROUP_KEY$$ | 4 INS_LN_TX -12 node1 | 5 Commit
"""

from __future__ import annotations

import uuid
from typing import Final, NamedTuple

from engine.catalog.naming import DatabaseOptions
from engine.db.database import Database
from engine.db.engine import Engine
from engine.db.environment import Environment
from engine.db.stream import AloneGate
from engine.db.transaction import Transaction
from engine.errors import DamageError, FormatError, RefusedError, UsageError, plural
from engine.format.entry.group_db import (
    GROUP_KEY,
    GroupNode,
    RepGroup,
    decode_group,
    decode_group_node,
    encode_group,
    encode_group_node,
)
from engine.format.entry.ln import LN
from engine.format.lsn import NULL_LSN
from engine.format.tuples import parse_string_key, string_key
from engine.format.vlsn import NULL_VLSN
from engine.tree.tree import bins, slot_data
from engine.txn.txn import Txn

DATABASE_NAME: Final = "_jeRepGroupDB"
ELECTABLE: Final = 1
FORMAT_VERSION: Final = 3
_JE_VERSION: Final = "18.3.20"
LEAST_JE_VERSION: Final = "7.5.0"
_NAME_BYTES: Final = 255


class Membership(NamedTuple):
    """A group and its members; removed ones are left out, except by ``committed_members``."""

    group: RepGroup
    nodes: tuple[GroupNode, ...]

    @property
    def electable(self) -> tuple[GroupNode, ...]:
        """Members that vote and acknowledge."""
        return tuple(node for node in self.nodes if node.type == ELECTABLE)

    def node(self, name: str) -> GroupNode | None:
        """The member of a name."""
        return next((node for node in self.nodes if node.name == name), None)


def read_membership(engine: Engine) -> Membership | None:
    """The group that an environment belongs to; None when its database has not come yet.

    Raises:
        DamageError: a record is malformed.
    """
    found = committed_members(engine)
    return None if found is None else found._replace(nodes=tuple(node for node in found.nodes if not node.removed))


def committed_members(engine: Engine) -> Membership | None:
    """The group with removed members, as ``read_membership``."""
    group, nodes = None, []
    for key, data in committed_records(engine):
        try:
            if parse_string_key(key) == GROUP_KEY:
                group = decode_group(data)
            else:
                nodes.append(decode_group_node(data))
        except FormatError as error:
            raise DamageError(
                "a record of the group database is malformed",
                file=engine.home,
                found=str(error),
                consequence="the members of the group are not known",
            ) from error
    return None if group is None else Membership(group, tuple(nodes))


def form_group(env: Environment, group: str, node: str, host: str, port: int) -> Membership:
    """Make a new group of one member in a replicated environment that has none, and lead it.

    Arguments:
        group, node: their names, at most 255 bytes.
        host, port: where the other members will find this node.

    Raises:
        RefusedError: there is a group already. UsageError: a name is empty or too long.
    """
    check_name("group", group)
    check_name("node", node)
    record = begin_group(env, group, 1, LEAST_JE_VERSION)
    with env.open_database(DATABASE_NAME) as db, env.begin() as txn:
        return add_to(env, db, txn, Membership(record, ()), (node, host, port))


def begin_group(env: Environment, group: str, node_id: int, least_version: str) -> RepGroup:
    """Lead from now on, and make the database of a new group, empty.

    Arguments:
        node_id: of this node, the first member.
        least_version: of JE, that a member must have.

    Returns:
        The record of the group, not written yet.

    Raises:
        RefusedError: there is a group already.
    """
    engine = env.engine
    if committed_members(engine) is not None or engine.vlsn_index is None or not engine.stream_range.is_empty:
        raise RefusedError("the environment belongs to a group already", file=env.home)
    # The id goes into the first Commit, before there is a record of the member.
    engine.lead(AloneGate(engine.vlsn_index, node_id))
    # By itself: NameLN and Commit must be VLSN 1 and 2 of the group.
    with engine.operation(None) as locker:
        engine.naming.create(DATABASE_NAME, DatabaseOptions(), locker, internal=True)
    made = uuid.uuid4().int
    return RepGroup(
        name=group,
        uuid_high=signed_64(made >> 64),
        uuid_low=signed_64(made),
        format_version=FORMAT_VERSION,
        change_version=0,
        last_node_id=0,
        min_je_version=least_version,
    )


def lead_alone(engine: Engine) -> None:
    """Write as the master of a group whose only electable member this is.

    Raises:
        RefusedError: the group has other electable members, whose stream would part from this node's; or none.
    """
    members = read_membership(engine)
    electable = members.electable if members is not None else ()
    if len(electable) != 1 or engine.vlsn_index is None:
        raise RefusedError(
            "the environment belongs to a replication group"
            + (
                f" of {plural(len(electable), 'electable member')}"
                if electable
                else " whose members are not known here"
            ),
            file=engine.home,
            consequence="a change made here would be missing on the other nodes",
            hint="change the record through the master of the group",
        )
    engine.lead(AloneGate(engine.vlsn_index, electable[0].id))


def check_name(what: str, name: str) -> None:
    """Refuse names that are empty or too long, or the key of the group itself.

    Raises:
        UsageError: it is one of these.
    """
    # Members are stored by name beside the record of the group: its key must stay free.
    if not name or name == GROUP_KEY or "\0" in name or len(name.encode("utf-8", "surrogateescape")) > _NAME_BYTES:
        raise UsageError(f"name of a {what}", expected=f"1 to {_NAME_BYTES} bytes", found=repr(name))


def committed_records(engine: Engine) -> list[tuple[bytes, bytes]]:
    """The committed records of the group database.

    Without locks: a change of membership that a crash has left open keeps its locks until the group decides on it.
    """
    ctx, found = engine.ctx, []
    with ctx.latch:
        state = engine.catalog.by_name(DATABASE_NAME)
        for node in bins(ctx, state) if state is not None else ():
            for index, lsn in enumerate(node.lsns):
                # A version of an open transaction does not count; its lock knows the one before.
                before = next(
                    (
                        txn.writes[lsn][1]
                        for txn, _ in engine.locks.owners(lsn)
                        if isinstance(txn, Txn) and lsn in txn.writes
                    ),
                    None,
                )
                if before is None:
                    data = slot_data(ctx, node, index) if node.is_live(index) else None
                elif before.lsn == NULL_LSN or before.known_deleted:
                    # Inserted by the open transaction: nothing is committed under this key.
                    data = None
                else:
                    record = ctx.access.read(before.lsn).record()
                    data = record.data if isinstance(record, LN) else None
                if data is not None:
                    found.append((node.keys[index], data))
    return found


def add_to(
    env: Environment, db: Database, txn: Transaction, members: Membership, place: tuple[str, str, int]
) -> Membership:
    """Put the group record and that of a new member, with the next node id and change version."""
    name, host, port = place
    group = members.group
    group = group._replace(change_version=group.change_version + 1, last_node_id=group.last_node_id + 1)
    node = GroupNode(
        name=name,
        id=group.last_node_id,
        format_version=FORMAT_VERSION,
        type=ELECTABLE,
        quorum_ack=True,
        removed=False,
        host=host,
        port=port,
        local_cbvlsn=NULL_VLSN,
        barrier_time=env.engine.now_ms(),
        change_version=group.change_version,
        je_version=_JE_VERSION,
    )
    db.put(string_key(GROUP_KEY), encode_group(group), txn)
    db.put(string_key(name), encode_group_node(node), txn)
    return Membership(group, (*members.nodes, node))


def signed_64(bits: int) -> int:
    """The low 64 bits as a signed number."""
    return ((bits & (1 << 64) - 1) ^ (1 << 63)) - (1 << 63)
