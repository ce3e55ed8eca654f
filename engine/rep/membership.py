"""Asks the master of a group to change its members (service ``Group``, je-ha-protocol.md 12.4).

* ``REMOVE``: the member has no vote any more, and no node of its name joins again. Its record stays.
* ``DELETE``: the record goes too, so that a new, empty node may have the name. The node must not run.
* ``MOVE``: the record gets another address, as when a machine is replaced. The node must not run.

Example: of n1, n2 and n3, n3 is gone for good. As long as it is a member, n1 and n2 must both be there for a majority.
After ``REMOVE`` the group has two electable members, whose majority is two as well; a new n4 makes it three again.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from engine.errors import RefusedError
from engine.format.entry.group_db import GroupNode
from engine.rep.client.call import ask
from engine.rep.client.connection import Address, Network
from engine.rep.client.group_state import GroupLook, look
from engine.rep.group import VOTERS
from engine.rep.peers import PeerError, address_text
from engine.rep.remote import UnknownOutcomeError
from engine.rep.wire.group_lines import GROUP, DeleteMember, GroupFailure, RemoveMember, UpdateAddress
from engine.rep.wire.lines import OkReply, TextMessage

_UNCHANGED: Final = "nothing was changed"
_SHOW: Final = "jetool group show {} shows the members"


class Change(Enum):
    """What is done to a member; the value says it."""

    REMOVE = "removed"
    DELETE = "deleted"
    MOVE = "moved"


class Voters(NamedTuple):
    """The electable members of a group and its arbiter, and how many of them answer now."""

    electable: int
    running: int

    @property
    def majority(self) -> int:
        """The members that an election needs, and a commit under the policy simple majority."""
        return self.electable // 2 + 1


class MembershipChange(NamedTuple):
    """A change that the master can be asked for.

    Attributes:
        member: its record before.
        address: its new address; None unless it is moved.
        before: a majority of these has to acknowledge the change.
        after: the same once it is done.
    """

    change: Change
    group: str
    master: str
    master_address: Address
    member: GroupNode
    address: Address | None
    before: Voters
    after: Voters


def plan_change(
    network: Network, asked: Address, node: str, change: Change, timeout_s: float, address: Address | None = None
) -> MembershipChange:
    """Find the master and the member, and whether the member may be changed.

    Arguments:
        asked: address of any node of the group.
        node: name of the member.
        timeout_s: timeout of each step of each call.
        address: the new address of a member that is moved.

    Raises:
        NotFoundError: no node answers. PeerError: as ``look``. RefusedError: there is no master, no such member, or the
            member is the master, runs, or was removed before.
    """
    found = look(network, [asked], None, timeout_s)
    hint = _SHOW.format(address_text(asked))
    if found.master_address is None:
        raise RefusedError(f"group {found.group} has no master now", consequence=_UNCHANGED, hint=hint)
    member = next((one for one in found.members.nodes if one.name == node), None)
    if member is None or (member.removed and (member.quorum_ack or change is Change.MOVE)):
        known = sorted(one.name or "" for one in found.members.nodes if not one.removed)
        what = f"{node!r} is no member of group {found.group}" if member is None else f"{node!r} was removed before"
        raise RefusedError(what, found=f"members are {', '.join(known)}", consequence=_UNCHANGED, hint=hint)
    if node == found.master:
        raise RefusedError(
            f"{node!r} is the master",
            consequence=_UNCHANGED,
            hint=f"jetool node transfer-master {address_text(asked)} --to-node NAME --yes gives the role to another",
        )
    if change is not Change.REMOVE and any(one.name == node and one.said is not None for one in found.nodes):
        raise RefusedError(f"{node!r} runs", consequence=_UNCHANGED, hint=f"stop {node} first")
    if address is not None and address == (member.host, member.port):
        raise RefusedError(f"{node!r} has the address {address_text(address)} already", consequence=_UNCHANGED)
    gone = node if change is not Change.MOVE else None
    return MembershipChange(
        change=change,
        group=found.group,
        master=found.master or "",
        master_address=found.master_address,
        member=member,
        address=address,
        before=_voters(found),
        after=_voters(found, gone),
    )


def change_member(network: Network, plan: MembershipChange, timeout_s: float) -> None:
    """Have the master do it; replicas acknowledge it like a commit.

    Raises:
        RefusedError: the master refuses. UnknownOutcomeError: its answer does not come.
    """
    try:
        answer = ask(network, plan.master_address, GROUP, plan.group, _message(plan), timeout_s)
    except PeerError as error:
        raise UnknownOutcomeError(
            error.what,
            found=error.found,
            consequence="whether the member was changed is not known",
            hint=_SHOW.format(address_text(plan.master_address)),
        ) from error
    said = answer[1] if answer is not None else None
    if isinstance(said, OkReply):
        return
    raise RefusedError(
        f"{plan.master}, the master, does not change {plan.member.name!r}",
        found=said.text if isinstance(said, GroupFailure) else type(said).__name__,
        consequence=_UNCHANGED,
        hint=_SHOW.format(address_text(plan.master_address)),
    )


def _message(plan: MembershipChange) -> TextMessage:
    name = plan.member.name or ""
    if plan.address is not None:
        return UpdateAddress(node=name, host=plan.address[0], port=plan.address[1])
    return RemoveMember(node=name) if plan.change is Change.REMOVE else DeleteMember(node=name)


def _voters(found: GroupLook, without: str | None = None) -> Voters:
    return Voters(
        electable=sum(_votes(one) and one.name != without for one in found.members.nodes),
        running=sum(one.said is not None and _votes(one.member) and one.name != without for one in found.nodes),
    )


def _votes(member: GroupNode | None) -> bool:
    return member is not None and member.type in VOTERS and not member.removed
