"""Changes of a group requested by tools: members, their addresses, the master (je-ha-protocol.md 12.4).

``DbGroupAdmin`` and ReplicationGroupAdmin send these requests. Members are removed, deleted or moved in two commits,
like additions; a connected member is neither deleted nor moved. A transfer blocks commits and waits until the target
has everything; then all members are notified of the result, as after an election, and this node stops leading.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from engine.errors import JetoolError, NotFoundError, RefusedError
from engine.format.entry.group_db import NODE_TYPES, GroupNode
from engine.rep.master.election import new_proposal
from engine.rep.master.membership import ConflictError
from engine.rep.master.term import Leadership
from engine.rep.wire.election_lines import Result, Suggestion
from engine.rep.wire.group_lines import (
    DeleteMember,
    EnsureNode,
    EnsureNodeResponse,
    GroupFailure,
    RemoveMember,
    TransferMaster,
    TransferMasterResponse,
    UpdateAddress,
)
from engine.rep.wire.lines import OkReply, TextMessage

_MONITOR: Final = NODE_TYPES.index("monitor")
_POLL_S: Final = 0.02
_LONGEST_S: Final = 3600.0


class GroupChanges:
    """Answers these requests.

    Arguments:
        term: of the master.
        tell: notifies all members of the result of an election, this node last.
    """

    def __init__(self, term: Leadership, tell: Callable[[Result], None]) -> None:
        self._term = term
        self._tell = tell

    def answer(self, message: TextMessage) -> TextMessage:
        """Do the requested change, or return the reason against it."""
        try:
            if isinstance(message, RemoveMember | DeleteMember):
                return self._remove(message.node, forget=isinstance(message, DeleteMember))
            if isinstance(message, UpdateAddress):
                return self._move(message)
            if isinstance(message, EnsureNode):
                return self._ensure(message.node)
            if isinstance(message, TransferMaster):
                return self._transfer(message)
        except NotFoundError as error:
            return GroupFailure(text=_shown(error), reason="MEMBER_NOT_FOUND")
        except JetoolError as error:
            reason = "TRANSFER_FAIL" if isinstance(message, TransferMaster) else "DEFAULT"
            return GroupFailure(text=_shown(error), reason=reason)
        return GroupFailure(text="this master does not do that", reason="DEFAULT")

    def _remove(self, name: str, *, forget: bool) -> TextMessage:
        if name == self._term.pair.name:
            return GroupFailure(text="the master cannot be removed", reason="IS_MASTER")
        if forget and self._term.is_fed(name):
            return GroupFailure(text=f"{_ascii(name)} is active", reason="MEMBER_ACTIVE")
        self._term.remove_member(name, forget=forget)
        return OkReply()

    def _move(self, message: UpdateAddress) -> TextMessage:
        if message.node == self._term.pair.name:
            return GroupFailure(text="the address of the master cannot be changed", reason="IS_MASTER")
        if self._term.is_fed(message.node):
            return GroupFailure(text="the address of a node that is active cannot be changed", reason="IS_REPLICA")
        self._term.move_member(message.node, message.host, message.port)
        return OkReply()

    def _ensure(self, node: GroupNode) -> TextMessage:
        if node.type != _MONITOR:
            raise ConflictError("only a monitor is made a member so")
        member = self._term.admit_member(node._replace(id=0, quorum_ack=False, removed=False))
        return EnsureNodeResponse(name=member.name or "", id=member.id)

    def _transfer(self, message: TransferMaster) -> TextMessage:
        if self._term.pair.name in message.nodes:
            return TransferMasterResponse(winner=self._term.pair.name)
        timeout_s = min(max(message.timeout_ms / 1000, 0.0), _LONGEST_S)
        target = self._caught_up(message.nodes, time.monotonic() + timeout_s, timeout_s)
        winner = Suggestion(target.host or "", target.port, target.name or "", target.id)
        proposal = new_proposal()
        # Commits stay blocked: from here on the other node takes them.
        self._tell(Result(proposal=proposal, value=winner))
        return TransferMasterResponse(winner=winner.node)

    def _caught_up(self, names: tuple[str, ...], deadline: float, timeout_s: float) -> GroupNode:
        """The first of these electable replicas that has everything; commits are then blocked."""
        term = self._term
        fed = {name: node for name in names if (node := term.fed_voter(name)) is not None}
        if not fed:
            raise RefusedError("none of them is an electable replica that is connected", found=_ascii(", ".join(names)))
        term.gate.hold(timeout_s)
        try:
            while time.monotonic() < deadline:
                for name, node in fed.items():
                    if term.has_all(name):
                        return node
                time.sleep(_POLL_S)
        except BaseException:
            term.gate.go_on()
            raise
        term.gate.go_on()
        raise RefusedError("none of them has everything in time", consequence="this node is still the master")


def _shown(error: JetoolError) -> str:
    return _ascii(str(error))


def _ascii(text: str) -> str:
    return "".join(char if char.isascii() and char.isprintable() and char != "|" else "?" for char in text)
