"""Asking the master of a group of JE to give its role to another member (service ``Group``, je-ha-protocol.md 12.4)."""

from __future__ import annotations

from typing import Final

from engine.errors import RefusedError
from engine.rep.client.call import ask
from engine.rep.client.connection import Address, Network
from engine.rep.client.looking import look
from engine.rep.peers import address_text
from engine.rep.wire.group_lines import GROUP, GroupFailure, TransferMaster, TransferMasterResponse

# Longer than the master waits, so that its own answer arrives.
_MORE_S: Final = 2.0


def transfer_master(network: Network, address: Address, node: str, timeout_s: float) -> None:
    """Make another member the master.

    Arguments:
        address: of any node of the group.
        node: the electable member that shall be the master.
        timeout_s: how long the master waits for it to catch up.

    Raises:
        NotFoundError: nobody answers. PeerError: as ``look``. RefusedError: there is no master, or it says no.
    """
    found = look(network, [address], None, timeout_s)
    master = found.master_address
    if master is None:
        raise RefusedError(f"group {found.group} has no master now", hint="jetool group show says what its nodes do")
    message = TransferMaster(nodes=(node,), timeout_ms=int(timeout_s * 1000), force=False)
    answer = ask(network, master, GROUP, found.group, message, timeout_s + _MORE_S)
    said = answer[1] if answer is not None else None
    if isinstance(said, TransferMasterResponse) and said.winner == node:
        return
    raise RefusedError(
        f"{address_text(master)} does not give its role to {node!r}",
        found=said.text if isinstance(said, GroupFailure) else type(said).__name__,
        consequence="it is still the master",
    )
