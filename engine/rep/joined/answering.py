"""What others may ask a node that follows a group of JE: its state, the members it knows (je-ha-protocol.md 12, 13).

``BinaryNodeState`` (DbPing, ``group show``), ``NodeState`` and ``Group`` are answered; any other service is one that
the node does not have, which is what JE's nodes expect of one that is no master. Nothing that is asked here changes
anything. A caller has a few seconds for everything, and the number of callers at a time is bounded.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from engine.errors import JetoolError
from engine.rep.client.call import GROUP_MISMATCH, VERSION_MISMATCH
from engine.rep.client.connection import Address
from engine.rep.client.handshake import LOG_VERSION, RELEASE
from engine.rep.service_port import ServicePort
from engine.rep.wire.group_lines import GROUP, STATE, GroupRequest, GroupResponse, Members, StateResponse
from engine.rep.wire.inbox import Inbox
from engine.rep.wire.lines import NO_CHECK, Envelope, LineTable, Refused, TextMessage
from engine.rep.wire.node_state import NODE_STATE, VERSION, NodeStateError, NodeStateRequest, NodeStateResponse
from engine.rep.wire.services import Status

_LONGEST_CALL_S: Final = 10.0
_MOST_CALLS: Final = 16
_RECEIVE_BYTES: Final = 1 << 12
_TEXTS: Final = {table.service: table for table in (GROUP, STATE)}


class NodeFacts(NamedTuple):
    """What a node says of itself.

    Attributes:
        master: the name of the one that it follows, or followed last; empty for none.
        state: REPLICA, or UNKNOWN while it has no master.
        joined_ms: when it took up its state.
        commit_vlsn, master_commit_vlsn: the last transaction end, here and at the master.
        members: as its own copy of the group's database has them.
    """

    group: str
    node: str
    master: str
    state: str
    joined_ms: int
    commit_vlsn: int
    master_commit_vlsn: int
    members: Members | None


class Conversation:
    """One caller: bytes go in, bytes come out, until it is ``over``.

    Arguments:
        facts: of the node, at the moment.
    """

    def __init__(self, facts: Callable[[], NodeFacts]) -> None:
        self._facts = facts
        self._inbox = Inbox(from_client=True)
        self._service: str | None = None
        self.over = False

    def hear(self, data: bytes) -> bytes:
        """Take what has come; the answer, or nothing while bytes are missing.

        Raises:
            FormatError: it makes no sense.
        """
        self._inbox.feed(data)
        answer = b""
        if self._service is None:
            self._service = self._inbox.service()
            if self._service is None:
                return b""
            if self._service != NODE_STATE.service and self._service not in _TEXTS:
                self.over = True
                return bytes((Status.UNKNOWN_SERVICE,))
            answer = bytes((Status.OK,))
        if self._service == NODE_STATE.service:
            request = self._inbox.message(NODE_STATE, VERSION)
            if isinstance(request, NodeStateRequest):
                self.over = True
                answer += NODE_STATE.encode(self._state(request), VERSION, client=False)
            return answer
        table = _TEXTS[self._service]
        line = self._inbox.line(table)
        if line is not None:
            self.over = True
            answer += self._line(table, *line)
        return answer

    def _state(self, request: NodeStateRequest) -> NodeStateResponse | NodeStateError:
        facts = self._facts()
        if (request.node, request.group) != (facts.node, facts.group) or not facts.master:
            return NodeStateError(text="another node, another group, or no master yet")
        return NodeStateResponse(
            node=facts.node,
            group=facts.group,
            master=facts.master,
            je_version=RELEASE,
            joined_ms=facts.joined_ms,
            state=facts.state,
            commit_vlsn=facts.commit_vlsn,
            master_commit_vlsn=facts.master_commit_vlsn,
            feeders=0,
            log_version=LOG_VERSION,
            app_state=b"",
            load=f"{os.getloadavg()[0]:.2f}",
        )

    def _line(self, table: LineTable, asked: Envelope, message: TextMessage) -> bytes:
        facts = self._facts()
        envelope = Envelope(table.version, facts.group, NO_CHECK)
        said: TextMessage
        if float(asked.version) != float(table.version):
            said = Refused(problem=VERSION_MISMATCH, text=f"This node speaks version {table.version}")
        elif asked.group != facts.group:
            said = Refused(problem=GROUP_MISMATCH, text=f"Group name mismatch; this group name: {facts.group}")
        elif table is STATE and facts.master:
            said = StateResponse(
                node=facts.node, master=facts.master, joined_ms=facts.joined_ms, state=facts.state
            )  # fmt: skip
        elif isinstance(message, GroupRequest) and facts.members is not None:
            said = GroupResponse(members=facts.members)
        else:
            # As a node of JE closes that does not know, or is not the one to ask.
            return b""
        return table.encode(envelope, said, client=False)


class Answering:
    """Listens and answers.

    Arguments:
        listen: the address.
        facts: of the node, at the moment.
    """

    def __init__(self, listen: Address, facts: Callable[[], NodeFacts]) -> None:
        self._facts = facts
        self._places = threading.BoundedSemaphore(_MOST_CALLS)
        self._port = ServicePort(listen, "listens", self._take)

    def start(self) -> None:
        """Begin to listen.

        Raises:
            StorageError: the address cannot be listened on.
        """
        self._port.start()

    def close(self) -> None:
        """Take no more calls; those that are there end by their deadline."""
        self._port.close()

    def _take(self, sock: socket.socket, _: object) -> None:
        if self._places.acquire(blocking=False):
            threading.Thread(target=self._serve, args=(sock,), name="answers", daemon=True).start()
        else:
            sock.close()

    def _serve(self, sock: socket.socket) -> None:
        conversation, deadline = Conversation(self._facts), time.monotonic() + _LONGEST_CALL_S
        try:
            # Whatever a caller does, it is its own connection that ends.
            with sock, contextlib.suppress(OSError, JetoolError):
                while not conversation.over and (left := deadline - time.monotonic()) > 0:
                    sock.settimeout(left)
                    data = sock.recv(_RECEIVE_BYTES)
                    if not data:
                        break
                    sock.sendall(conversation.hear(data))
        finally:
            self._places.release()
