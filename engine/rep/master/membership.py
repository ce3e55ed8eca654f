"""The members of a group of JE, as its master writes them into the group database (je-ha-protocol.md 14).

* A member is added, changed or removed in two commits. The first commit has the next change version of the group and is
  acknowledged by a majority; the second commit then records the confirmation. Only then is the change effective.
* SECONDARY and EXTERNAL nodes have ids while they are connected, and no record.

Example, the second node, of id 2::

    VLSN 12 UPD_LN_TX -16 $$GROUP_KEY$$ | 13 INS_LN_TX -16 n2 | 14 Commit | 15 UPD_LN_TX -17 n2 | 16 Commit
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from engine.db.environment import Environment
from engine.errors import NotFoundError, RefusedError
from engine.format.entry.group_db import GroupNode
from engine.format.tuples import string_key
from engine.rep.acks import AckPolicy, GroupGate
from engine.rep.group import (
    ARBITER,
    DATABASE_NAME,
    ELECTABLE,
    FIRST_ID,
    VOTERS,
    Membership,
    committed_members,
    put_records,
)


class ConflictError(RefusedError):
    """A node that cannot become a member: another member has its address, or the node was removed."""


class GroupDatabase:
    """The group database of a master.

    Arguments:
        env: led by this node.
        gate: the gate of the master's commits.
        changed: called with the name of a member and ``ADD`` or ``REMOVE`` after an addition or removal.
    """

    def __init__(self, env: Environment, gate: GroupGate, changed: Callable[[str, str], None]) -> None:
        self._env = env
        self._gate = gate
        self._changed = changed
        # Held during a change of the group: otherwise two new members could get the same id.
        self._changing = threading.Lock()
        self._members = self._read()
        self._count()

    @property
    def members(self) -> Membership:
        """The group, including removed members."""
        return self._members

    def node(self, name: str) -> GroupNode | None:
        """The record of a member, removed or not."""
        return self._members.node(name)

    def ensure(self, node: GroupNode) -> GroupNode:
        """Make a node a confirmed member.

        Arguments:
            node: the description that the node gives of itself; its id is assigned here.

        Raises:
            ConflictError: another member has its address, or the group has an arbiter already. RefusedError: too few
                replicas are connected, or acknowledge.
        """
        with self._changing:
            known = self._members.node(node.name or "")
            if known is not None and known.quorum_ack:
                return known
            if known is not None:
                node = node._replace(id=known.id)
            self._check_arbiter(node)
            added = self._update(node, AckPolicy.SIMPLE_MAJORITY)
        self._changed(added.name or "", "ADD")
        return added

    def update(self, node: GroupNode) -> GroupNode:
        """Record a change of a member, without acknowledgements."""
        with self._changing:
            return self._update(node, AckPolicy.NONE)

    def move(self, name: str, host: str, port: int) -> None:
        """Change the address of a member.

        Raises:
            NotFoundError: there is no such member. ConflictError: another member has this address. RefusedError: as
                ``ensure``.
        """
        with self._changing:
            known = self._members.node(name)
            if known is None or known.removed:
                raise NotFoundError(f"{name!r} is no member of the group")
            self._update(known._replace(host=host, port=port), AckPolicy.SIMPLE_MAJORITY)

    def remove(self, name: str, *, forget: bool) -> None:
        """Remove a member from the group.

        Arguments:
            forget: delete the record of the node too, so that the name can be used again.

        Raises:
            NotFoundError: there is no such member, or it was removed before. RefusedError: too few replicas are
                connected, or acknowledge.
        """
        with self._changing:
            known = self._members.node(name)
            if known is None:
                raise NotFoundError(f"{name!r} is no member of the group")
            # As in JE, a removal that was not confirmed can be repeated, and a confirmed one is final.
            if known.removed and known.quorum_ack:
                raise NotFoundError(f"{name!r} is no member of the group: it was removed")
            self._update(known._replace(removed=True), AckPolicy.SIMPLE_MAJORITY, forget=forget)
        self._changed(name, "REMOVE")

    def _update(self, node: GroupNode, policy: AckPolicy, *, forget: bool = False) -> GroupNode:
        """Both phases."""
        group = self._members.group
        group = group._replace(change_version=group.change_version + 1)
        if node.id < FIRST_ID:
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
            # Read the group again after both commits, as in JE; the first commit counts even if it was not
            # acknowledged.
            self._members = self._read()
            self._count()
        return node

    def _check_arbiter(self, node: GroupNode) -> None:
        others = (other for other in self._members.nodes if other.name != node.name and not other.removed)
        if node.type == ARBITER and any(other.type == ARBITER for other in others):
            raise ConflictError("An Arbiter node already exists in the replication group.")

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
        # Including unconfirmed members, as JE counts.
        types = [node.type for node in self._members.nodes if not node.removed]
        self._gate.electable = types.count(ELECTABLE)
        self._gate.voters = sum(node_type in VOTERS for node_type in types)
