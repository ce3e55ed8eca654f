"""The address of a node under a burst of callers."""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest

from engine.rep.client.connection import SocketNetwork
from engine.rep.records import PutRequest
from engine.rep.remote import put_record
from engine.rep.service_port import ServicePort
from engine.rep.serving.port import is_same_machine
from tests.rep.leading.leaders import leading
from tests.rep.nodes import free_ports
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


def own_address() -> str:
    """An address of this machine for others, if it has one; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def test_a_node_takes_writes_of_its_own_machine_at_an_address_for_others() -> None:
    """As ``jetool node put db1:5001``, typed on db1, whose node listens for the group without TLS."""
    (address,) = free_ports(1, own_address())
    with leading(listen=address) as node:
        done = put_record(SocketNetwork(), node.config.listen, PutRequest("t", b"k", b"v", True, True), PATIENCE_S)
    assert done.written.records == 1


@pytest.mark.parametrize(
    ("caller", "called", "same"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("::1", "::1", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("fe80::1%eth0", "fe80::1%eth0", True),
        ("10.0.0.2", "10.0.0.1", False),
        ("fd00::2", "fd00::1", False),
    ],
)
def test_callers_of_the_same_machine(caller: str, called: str, same: bool) -> None:
    assert is_same_machine(caller, called) is same
