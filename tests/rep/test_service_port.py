"""The address of a node under a burst of callers."""

from __future__ import annotations

import contextlib
import socket
import threading

from engine.rep.service_port import ServicePort
from tests.support.groups.nodes import free_ports
from tests.support.waiting import PATIENCE_S

_CALLERS = 100
# The kernel sends a lost SYN again after one second.
_AT_ONCE_S = 0.9


def test_a_burst_of_callers_is_taken_while_one_is_being_handed_on() -> None:
    """No caller hangs in its connect, and each is handed on in the end."""
    ((host, port),) = free_ports(1)
    go_on, taken = threading.Event(), list[socket.socket]()

    def take(connection: socket.socket, _: object) -> None:
        go_on.wait(PATIENCE_S)
        taken.append(connection)
        connection.close()

    listener = ServicePort((host, port), "listens", take)
    listener.start()
    with contextlib.ExitStack() as callers:
        callers.callback(listener.close)
        callers.callback(go_on.set)
        calls = [callers.enter_context(socket.create_connection((host, port), _AT_ONCE_S)) for _ in range(_CALLERS)]
        go_on.set()
        for call in calls:
            call.settimeout(PATIENCE_S)
            assert call.recv(1) == b""
    assert len(taken) == _CALLERS
