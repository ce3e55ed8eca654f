"""The members of a replication group, kept in the replicated database ``_jeRepGroupDB`` (je-log-format.md 11.4).

Every node has the same copy of the group database, since its changes are part of the stream. The first node creates the
group; the master adds a member when it connects for the first time.

* A new group: the database, with id -257; the record of the group, its first member, the confirmation of the member,
  and the least release of JE, each in a transaction of its own, with the same VLSNs as in JE.
* ``change_version`` of the group counts changes of membership; that of a node is the version at which it was added.
* Node ids are assigned ascending from 1 and never reused; a removed member keeps its record.

Example, the first node::

    VLSN 1 NameLN_TX -11 _jeRepGroupDB | 2 Commit -11 | 3 INS_LN_TX -12 $$GROUP_KEY$$ | 4 Commit -12
    | 5 UPD_LN_TX -13 $$GROUP_KEY$$ | 6 INS_LN_TX -13 node1 | 7 Commit -13 | ... | 11 Commit -15
"""

from __future__ import annotations

import uuid
from typing import Final, NamedTuple

from engine.catalog.name_operations import DatabaseOptions
from engine.db.engine import Engine
from engine.db.environment import Environment
from engine.db.stream import AloneGate
from engine.db.write_operation import write_operation
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
from engine.format.versions import JE_RELEASES
from engine.format.vlsn import NULL_VLSN
from engine.rep.stream import new_term
from engine.tree.tree import bins, slot_data
from engine.txn.txn import Txn

DATABASE_NAME: Final = "_jeRepGroupDB"
ELECTABLE: Final = 1
ARBITER: Final = 3
# Members that vote. An arbiter has no log and never leads.
VOTERS: Final = (ELECTABLE, ARBITER)
FORMAT_VERSION: Final = 3
FIRST_ID: Final = 1
# The releases of JE whose nodes jetool was tried with, by log version. A node reports the release of its log version,
# and always the same one, since masters insist on the same release for a name.
_RELEASES: Final = {17: "18.3.20", 26: "25.3.17"}
# JE 18.3 first writes this release as the least one, and then that from which groups keep no CBVLSN.
_FIRST_LEAST_VERSION: Final = "6.0.1"
LEAST_JE_VERSION: Final = "7.5.0"
_NAME_BYTES: Final = 255


class Membership(NamedTuple):
    """A group and its members; removed ones are left out, except by ``committed_members``."""

    group: RepGroup
    nodes: tuple[GroupNode, ...]

    @property
    def electable(self) -> tuple[GroupNode, ...]:
        """Members with a log that vote and acknowledge."""
        return tuple(node for node in self.nodes if node.type == ELECTABLE)

    @property
    def voters(self) -> tuple[GroupNode, ...]:
        """The electable members, and after them the arbiter."""
        return (*self.electable, *(node for node in self.nodes if node.type == ARBITER))

    def node(self, name: str) -> GroupNode | None:
        """The member with a name."""
        return next((node for node in self.nodes if node.name == name), None)


def read_membership(engine: Engine) -> Membership | None:
    """The group of an environment; None if its database does not exist yet.

    Raises:
        DamageError: a record is malformed.
    """
    found = committed_members(engine)
    return None if found is None else found._replace(nodes=tuple(node for node in found.nodes if not node.removed))


def committed_members(engine: Engine) -> Membership | None:
    """The group including removed members; otherwise as ``read_membership``."""
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


def form_group(env: Environment, group: str, node: str, host: str, port: int) -> None:
    """Create a group of one member in a replicated environment without a group, as JE does; the node then leads it.

    Arguments:
        group, node: names of the group and of the node, at most 255 bytes each.
        host, port: where the other members will find this node.

    Raises:
        RefusedError: there is a group already. UsageError: a name is empty or too long.
    """
    check_name("group", group)
    check_name("node", node)
    engine = env.engine
    if engine.vlsn_index is None or not may_form(engine, node):
        raise RefusedError("the environment belongs to a group already", file=env.home)
    # The first Commit needs the id before the record of the member exists.
    engine.lead(AloneGate(engine.vlsn_index, FIRST_ID))
    if engine.catalog.by_name(DATABASE_NAME) is None:
        # The database is created in its own transaction: NameLN and Commit must be VLSN 1 and 2 of the group.
        with write_operation(engine, None) as locker:
            engine.naming.create(DATABASE_NAME, DatabaseOptions(), locker, internal=True)
    none_yet = new_group(group, 0, _FIRST_LEAST_VERSION)
    of_one = none_yet._replace(change_version=1, last_node_id=FIRST_ID)
    release = release_of(engine.log_version)
    mine = described(node, host, port, ELECTABLE, release, engine.now_ms())._replace(id=FIRST_ID, change_version=1)
    raised = of_one._replace(min_je_version=LEAST_JE_VERSION)
    steps: tuple[tuple[RepGroup | None, GroupNode | None], ...] = (
        (none_yet, None),
        (of_one, mine),
        (None, mine._replace(quorum_ack=True)),
        (raised, None),
    )
    for record, member in steps:
        put_records(env, record, member)


def may_form(engine: Engine, node: str) -> bool:
    """Whether the environment holds no group, except a group that this node began to create before a crash."""
    members = committed_members(engine)
    return members is None or all(member.name == node and not member.quorum_ack for member in members.nodes)


def new_group(name: str, last_node_id: int, least_version: str) -> RepGroup:
    """The record of a new group, with an identity of its own.

    Arguments:
        least_version: least release of JE that a member must have.
    """
    made = uuid.uuid4().int
    return RepGroup(
        name=name,
        uuid_high=signed_64(made >> 64),
        uuid_low=signed_64(made),
        format_version=FORMAT_VERSION,
        change_version=0,
        last_node_id=last_node_id,
        min_je_version=least_version,
    )


def described(name: str, host: str, port: int, node_type: int, je_version: str | None, now_ms: int) -> GroupNode:
    """A node that is not yet a confirmed member."""
    return GroupNode(
        name=name,
        id=0,
        format_version=FORMAT_VERSION,
        type=node_type,
        quorum_ack=False,
        removed=False,
        host=host,
        port=port,
        local_cbvlsn=NULL_VLSN,
        barrier_time=now_ms,
        change_version=0,
        je_version=je_version or "",
    )


def put_records(env: Environment, group: RepGroup | None, node: GroupNode | None) -> None:
    """One commit of the group database."""
    with env.open_database(DATABASE_NAME) as db, env.begin() as txn:
        if group is not None:
            db.put(string_key(GROUP_KEY), encode_group(group), txn)
        if node is not None:
            db.put(string_key(node.name or ""), encode_group_node(node), txn)


def lead_alone(engine: Engine) -> None:
    """Write as the master of a group whose only electable member this is.

    Raises:
        RefusedError: as ``require_alone``.
    """
    number = require_alone(engine)
    assert engine.vlsn_index is not None
    engine.lead(AloneGate(engine.vlsn_index, number), new_term(engine))


def require_alone(engine: Engine) -> int:
    """The id of the only electable member of the group.

    Raises:
        RefusedError: the group has other electable members, whose stream would diverge from this node's; or it has no
            electable member.
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
    return electable[0].id


def check_name(what: str, name: str) -> None:
    """Refuse names that are empty or too long, or the key of the group itself.

    Raises:
        UsageError: the name is not allowed.
    """
    # Members are stored by name beside the record of the group: no member may have its key as name.
    if not name or name == GROUP_KEY or "\0" in name or len(name.encode("utf-8", "surrogateescape")) > _NAME_BYTES:
        raise UsageError(f"name of a {what}", expected=f"1 to {_NAME_BYTES} bytes", found=repr(name))


def release_of(log_version: int) -> str:
    """The release of JE that a node with a log of the given version reports."""
    return _RELEASES.get(log_version) or f"{JE_RELEASES[log_version]}.0"


def committed_records(engine: Engine) -> list[tuple[bytes, bytes]]:
    """The committed records of the group database.

    Reads without locks: a change of membership left open by a crash keeps its locks until the group decides on it.
    """
    ctx, found = engine.ctx, []
    with ctx.latch:
        state = engine.catalog.by_name(DATABASE_NAME)
        for node in bins(ctx, state) if state is not None else ():
            for index, lsn in enumerate(node.lsns):
                # A version of an open transaction does not count; the lock of the transaction holds the committed
                # version.
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
                    # Inserted by an open transaction, so nothing is committed under this key.
                    data = None
                else:
                    record = ctx.access.read(before.lsn).record()
                    data = record.data if isinstance(record, LN) else None
                if data is not None:
                    found.append((node.keys[index], data))
    return found


def signed_64(bits: int) -> int:
    """The low 64 bits as a signed number."""
    return ((bits & (1 << 64) - 1) ^ (1 << 63)) - (1 << 63)
