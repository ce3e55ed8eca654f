"""Asks the master of a group to transfer its role to another member (service ``Group``, je-ha-protocol.md 12.4)."""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.errors import RefusedError
from engine.format.entry.group_db import NODE_TYPES
from engine.rep.client.call import ask
from engine.rep.client.connection import Address, Network
from engine.rep.client.group_state import GroupLook, look
from engine.rep.peers import address_text
from engine.rep.wire.group_lines import GROUP, GroupFailure, TransferMaster, TransferMasterResponse

# Added to the time that the master waits, so that its answer still arrives.
_MORE_S: Final = 2.0
_ELECTABLE: Final = NODE_TYPES.index("electable")
_UNCHANGED: Final = "the master is still the same"
_SHOW: Final = "jetool group show {} shows the members, and the position of each"


class Transfer(NamedTuple):
    """The master that gives up the role, and the member that gets it.

    Attributes:
        lag: number of VLSNs by which the other node's last transaction end is behind the master's; None if unknown.
    """

    group: str
    master: str
    master_address: Address
    node: str
    lag: int | None


def plan_transfer(network: Network, address: Address, node: str, timeout_s: float) -> Transfer:
    """Find the master, and whether another node can become it.

    Arguments:
        address: address of any node of the group.
        node: the electable member to become master.
        timeout_s: timeout of each step of each call.

    Raises:
        NotFoundError: no node answers. PeerError: as ``look``. RefusedError: there is no master, or that node is not a
            member that follows it.
    """
    found = look(network, [address], None, timeout_s)
    master, hint = found.master_address, _SHOW.format(address_text(address))
    if master is None:
        raise RefusedError(f"group {found.group} has no master now", consequence="nothing was changed", hint=hint)
    other = next((one for one in found.nodes if one.name == node), None)
    if other is None or other.member is None or other.member.type != _ELECTABLE:
        raise RefusedError(
            f"{node!r} is no electable member of group {found.group}",
            expected=", ".join(sorted(_electable(found))),
            consequence=_UNCHANGED,
            hint=hint,
        )
    if other.said is None:
        raise RefusedError(f"{node!r} does not answer", found=other.problem, consequence=_UNCHANGED, hint=hint)
    return Transfer(
        group=found.group,
        master=found.master or "",
        master_address=master,
        node=node,
        lag=found.lag(other),
    )


def transfer_master(network: Network, plan: Transfer, timeout_s: float) -> None:
    """Make another member the master.

    Arguments:
        timeout_s: how long the master waits for the member to catch up.

    Raises:
        RefusedError: the master refuses. PeerError: the master cannot be reached.
    """
    message = TransferMaster(nodes=(plan.node,), timeout_ms=int(timeout_s * 1000), force=False)
    answer = ask(network, plan.master_address, GROUP, plan.group, message, timeout_s + _MORE_S)
    said = answer[1] if answer is not None else None
    if isinstance(said, TransferMasterResponse) and said.winner == plan.node:
        return
    raise RefusedError(
        f"{address_text(plan.master_address)} does not give its role to {plan.node!r}",
        found=said.text if isinstance(said, GroupFailure) else type(said).__name__,
        consequence=_UNCHANGED,
        hint=f"{_SHOW.format(address_text(plan.master_address))}; with a larger --timeout it may catch up",
    )


def _electable(found: GroupLook) -> list[str]:
    return [one.name for one in found.nodes if one.member is not None and one.member.type == _ELECTABLE]
