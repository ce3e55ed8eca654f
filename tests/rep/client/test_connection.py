"""Real sockets behind the seam: what answers late, closes, resets, or is not there."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from engine.rep.client.call import Call
from engine.rep.client.connection import SocketNetwork
from engine.rep.client.group_state import node_state
from engine.rep.peers import DisconnectedError, PeerError
from tests.support.groups.recordings import HOME, read
from tests.support.waiting import PATIENCE_S


@contextmanager
def server(serve: Callable[[socket.socket], None]) -> Iterator[tuple[str, int]]:
    """Somebody who takes one connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            sock, _ = listening.accept()
            with sock:
                serve(sock)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield listening.getsockname()[:2]
        finally:
            thread.join(PATIENCE_S)
    assert not thread.is_alive()


def ask(address: tuple[str, int], timeout_s: float = PATIENCE_S) -> object:
    return node_state(SocketNetwork(), address, "n2", "WIREGRP", timeout_s)


def test_a_recorded_node_over_tcp() -> None:
    recording = read(HOME / "services" / "008-BinaryNodeState-n2.jsonl")
    asked = recording.sent(client=True)

    def serve(sock: socket.socket) -> None:
        came = b""
        for piece in recording.pieces:
            if piece.client:
                while piece.data and piece.data not in came:
                    came += sock.recv(1)
            for byte in piece.data if not piece.client else b"":
                sock.sendall(bytes((byte,)))
        assert came == asked

    with server(serve) as address:
        assert "REPLICA" in str(ask(address))


@pytest.mark.parametrize("said", [b"", b"\0", b"\0" + b"\2\0\x10\0\0\0abc"])
def test_one_that_closes(said: bytes) -> None:
    def serve(sock: socket.socket) -> None:
        sock.recv(24)
        sock.sendall(said)

    with server(serve) as address, pytest.raises(DisconnectedError, match=r"clos|ended"):
        ask(address)


@pytest.mark.parametrize("said", [b"", b"\0", b"\0" + b"\2\0\x10\0\0\0abc"])
def test_one_that_is_silent(said: bytes) -> None:
    done = threading.Event()

    def serve(sock: socket.socket) -> None:
        sock.recv(24)
        sock.sendall(said)
        # Says no more, and closes only when it has been given up.
        assert done.wait(PATIENCE_S)

    with server(serve) as address:
        with pytest.raises(DisconnectedError, match="does not answer in time"):
            ask(address, 0.2)
        done.set()


def test_one_that_answers_a_byte_at_a_time_for_ever() -> None:
    """The deadline is for the whole answer, not for each byte of it."""
    stop = threading.Event()

    def serve(sock: socket.socket) -> None:
        sock.recv(24)
        sock.sendall(b"\0" + b"\2\0\0\1\0\0")
        while not stop.wait(0.02):
            try:
                sock.sendall(b"x")
            except OSError:
                return

    with server(serve) as address:
        with pytest.raises(DisconnectedError, match="in time"):
            ask(address, 0.3)
        stop.set()


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad Request\r\n", b"SSH-2.0-OpenSSH_9\r\n", b"\x15\3\1\0\2\2\n"])
def test_one_that_is_no_node(said: bytes) -> None:
    def serve(sock: socket.socket) -> None:
        sock.recv(24)
        sock.sendall(said)

    with server(serve) as address, pytest.raises(PeerError, match="no node of JE"):
        ask(address)


def test_a_length_that_is_far_too_large() -> None:
    def serve(sock: socket.socket) -> None:
        sock.recv(24)
        sock.sendall(b"\0" + b"\2\0\xff\xff\xff\x7f")

    with server(serve) as address, pytest.raises(PeerError, match="makes no sense"):
        ask(address)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()[:2]
    with pytest.raises(DisconnectedError, match="cannot be reached"):
        Call(SocketNetwork(), address, "Group", 2)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 300, "-", "käse..x"])
def test_a_name_that_is_none(host: str) -> None:
    with pytest.raises(DisconnectedError, match="cannot be reached"):
        Call(SocketNetwork(), (host, 5001), "Group", 2)
