"""The members of a group of JE, as its master writes them into the group database (je-ha-protocol.md 14).

* A new group: the record of the group, then its first member, then the least release of JE in it, each in a transaction
  of its own, with the VLSNs that JE gives them.
* A member comes, changes or goes in two commits: the first one with the next change version of the group, acknowledged
  by a majority; when it was, a second one notes that. Only then the member counts as one.
* SECONDARY and EXTERNAL nodes have ids as long as they are connected, and no record.

Example, the second node, of id 2::

    VLSN 12 UPD_LN_TX -16 $$GROUP_KEY$$ | 13 INS_LN_TX -16 n2 | 14 Commit | 15 UPD_LN_TX -17 n2 | 16 Commit
"""

from __future__ import annotations

import threading
from typing import Final

from engine.db.environment import Environment
from engine.errors import NotFoundError, RefusedError
from engine.format.entry.group_db import GROUP_KEY, GroupNode, RepGroup, encode_group, encode_group_node
from engine.format.tuples import string_key
from engine.format.vlsn import NULL_VLSN
from engine.rep.acks import AckPolicy, GroupGate
from engine.rep.client.connection import Address
from engine.rep.client.handshake import RELEASE
from engine.rep.group import (
    DATABASE_NAME,
    ELECTABLE,
    FORMAT_VERSION,
    LEAST_JE_VERSION,
    Membership,
    begin_group,
    committed_members,
)

# What JE 18.3 writes first; the release from which groups keep no CBVLSN follows.
_FIRST_LEAST_VERSION: Final = "6.0.1"
_FIRST_ID: Final = 1


class ConflictError(RefusedError):
    """A member that cannot come: another one is at its address, or it was removed."""


class GroupDatabase:
    """The group database of a master.

    Arguments:
        env: led by this node.
        gate: of its commits.
    """

    def __init__(self, env: Environment, gate: GroupGate) -> None:
        self._env = env
        self._gate = gate
        # One change at a time: two newcomers would be given the same id.
        self._changing = threading.Lock()
        self._members = self._read()
        self._count()

    @property
    def members(self) -> Membership:
        """The group, with removed members."""
        return self._members

    def node(self, name: str) -> GroupNode | None:
        """The record of a member, removed or not."""
        return self._members.node(name)

    def ensure(self, node: GroupNode) -> GroupNode:
        """Make a node a confirmed member.

        Arguments:
            node: as it describes itself; its id is given here.

        Raises:
            ConflictError: another member has its address. RefusedError: too few replicas are there, or acknowledge.
        """
        with self._changing:
            known = self._members.node(node.name or "")
            if known is not None and known.quorum_ack:
                return known
            if known is not None:
                node = node._replace(id=known.id)
            return self._update(node, AckPolicy.SIMPLE_MAJORITY)

    def update(self, node: GroupNode) -> GroupNode:
        """Note that a member has changed; nobody has to acknowledge it."""
        with self._changing:
            return self._update(node, AckPolicy.NONE)

    def move(self, name: str, host: str, port: int) -> None:
        """A member is elsewhere now.

        Raises:
            NotFoundError: there is no such member. ConflictError: another one is there. RefusedError: as ``ensure``.
        """
        with self._changing:
            known = self._members.node(name)
            if known is None or known.removed:
                raise NotFoundError(f"{name!r} is no member of the group")
            self._update(known._replace(host=host, port=port), AckPolicy.SIMPLE_MAJORITY)

    def remove(self, name: str, *, forget: bool) -> None:
        """Take a member out of the group.

        Arguments:
            forget: delete its record too, so that the name can come again.

        Raises:
            NotFoundError: there is no such member. RefusedError: too few replicas are there, or acknowledge.
        """
        with self._changing:
            known = self._members.node(name)
            if known is None or (known.removed and not forget):
                raise NotFoundError(f"{name!r} is no member of the group")
            self._update(known._replace(removed=True), AckPolicy.SIMPLE_MAJORITY, forget=forget)

    def _update(self, node: GroupNode, policy: AckPolicy, *, forget: bool = False) -> GroupNode:
        """Both phases."""
        group = self._members.group
        group = group._replace(change_version=group.change_version + 1)
        if node.id < _FIRST_ID:
            group = group._replace(last_node_id=group.last_node_id + 1)
            node = node._replace(id=group.last_node_id)
        self._check_address(node)
        node = node._replace(change_version=group.change_version, quorum_ack=False)
        try:
            with self._gate.under(policy):
                put_records(self._env, group, node)
            node = node._replace(quorum_ack=True)
            with self._gate.under(AckPolicy.NONE):
                if forget:
                    with self._env.open_database(DATABASE_NAME) as db, self._env.begin() as txn:
                        db.delete(string_key(node.name or ""), txn)
                else:
                    put_records(self._env, None, node)
        finally:
            # After both, as JE counts; and what the first one has made them, also when nobody acknowledged it.
            self._members = self._read()
            self._count()
        return node

    def _check_address(self, node: GroupNode) -> None:
        for other in self._members.nodes:
            if other.name != node.name and not other.removed and (other.host, other.port) == (node.host, node.port):
                raise ConflictError(
                    f"New or moved node:{node.name}, is configured with the socket address: {node.host}:{node.port}."
                    f"  It conflicts with the socket already used by the member: {other.name}"
                )

    def _read(self) -> Membership:
        found = committed_members(self._env.engine)
        if found is None:
            raise RefusedError("the environment belongs to no group", file=self._env.home)
        return found

    def _count(self) -> None:
        # Those too that are not confirmed yet, as JE counts.
        self._gate.electable = sum(node.type == ELECTABLE and not node.removed for node in self._members.nodes)


def form_group(env: Environment, group: str, node: str, listen: Address) -> None:
    """Make a new group of one member in a replicated environment that has none, as JE does; leads it from then on.

    Raises:
        RefusedError: there is a group already.
    """
    none_yet = begin_group(env, group, _FIRST_ID, _FIRST_LEAST_VERSION)
    mine = described(node, *listen, ELECTABLE, RELEASE, env.engine.now_ms())
    of_one = none_yet._replace(change_version=1, last_node_id=_FIRST_ID)
    mine = mine._replace(id=_FIRST_ID, change_version=1)
    raised = of_one._replace(min_je_version=LEAST_JE_VERSION)
    steps: tuple[tuple[RepGroup | None, GroupNode | None], ...] = (
        (none_yet, None), (of_one, mine), (None, mine._replace(quorum_ack=True)), (raised, None),
    )  # fmt: skip
    for record, member in steps:
        put_records(env, record, member)


def put_records(env: Environment, group: RepGroup | None, node: GroupNode | None) -> None:
    """One commit of the group database."""
    with env.open_database(DATABASE_NAME) as db, env.begin() as txn:
        if group is not None:
            db.put(string_key(GROUP_KEY), encode_group(group), txn)
        if node is not None:
            db.put(string_key(node.name or ""), encode_group_node(node), txn)


def described(name: str, host: str, port: int, node_type: int, je_version: str | None, now_ms: int) -> GroupNode:
    """A node that is no confirmed member yet."""
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
