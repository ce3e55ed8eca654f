"""A node of JE on a real port that speaks the protocol up to a byte, and then misbehaves."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from engine.rep.peers import DisconnectedError
from engine.rep.wire.log_file_feeder import SERVICE
from tests.support.groups.copy_server import CopyConnection, CopyServer
from tests.support.groups.group_double import GroupDouble, NodeDouble, StreamConnection
from tests.support.waiting import PATIENCE_S

_PAUSE_S = 0.01
_DRIP_S = 0.05


class Mischief(NamedTuple):
    """What a server does to its own answers.

    Attributes:
        kind: ``silent``, ``close``, ``drip`` (a byte at a time from there on), ``flood``, or ``replace``.
        at: byte of the answers of all connections together, in the order in which they are sent.
        data: sent again and again by ``flood``; put in the place of as many bytes by ``replace``.
    """

    kind: str
    at: int
    data: bytes = b""


class HostileServer:
    """Listens; use ``serving``.

    Attributes:
        port: where.
        sent: bytes of honest answers so far.
    """

    def __init__(self, group: GroupDouble, files: CopyServer, mischief: Mischief | None) -> None:
        self._group = group
        self._files = files
        self._mischief = mischief
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._threads: list[threading.Thread] = []
        self.port = self._listener.getsockname()[1]
        self.sent = 0

    def run(self) -> None:
        """Take calls until ``close``."""
        self._listener.settimeout(_PAUSE_S)
        while not self._stop.is_set():
            try:
                sock = self._listener.accept()[0]
            except TimeoutError:
                continue
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """End all connections."""
        self._stop.set()
        self._listener.close()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def _serve(self, sock: socket.socket) -> None:
        answering: StreamConnection | CopyConnection | None = None
        with sock, contextlib.suppress(OSError, DisconnectedError, AssertionError):
            sock.settimeout(_PAUSE_S)
            while not self._stop.is_set():
                busy = answering is not None and answering.has_more
                if select.select([sock], [], [], 0 if busy else _PAUSE_S)[0]:
                    data = sock.recv(1 << 16)
                    if not data:
                        return
                    if answering is None:
                        answering = self._answering(data)
                    answering.send(data, 0)
                if answering is None:
                    continue
                if answering.has_more:
                    if not self._answer(sock, answering.receive(0)):
                        return
                elif answering.ended:
                    return

    def _answering(self, request: bytes) -> StreamConnection | CopyConnection:
        if SERVICE.encode() in request:
            return self._files.connect(("127.0.0.1", self.port), 0)
        return StreamConnection(self._group, self._group.nodes[0])

    def _answer(self, sock: socket.socket, data: bytes) -> bool:
        """Send an answer, or what becomes of it; whether the connection goes on."""
        with self._lock:
            begin = self.sent
            self.sent += len(data)
        mischief = self._mischief
        if mischief is None or begin + len(data) <= mischief.at:
            self._send(sock, data)
            return True
        cut = max(mischief.at - begin, 0)
        if mischief.kind == "replace":
            stop = cut + len(mischief.data)
            self._send(sock, data if begin > mischief.at else (data[:cut] + mischief.data + data[stop:])[: len(data)])
            return True
        self._send(sock, data[:cut])
        if mischief.kind == "drip":
            for at in range(cut, len(data)):
                self._send(sock, data[at : at + 1])
                if self._stop.wait(_DRIP_S):
                    return False
            return True
        while mischief.kind == "flood" and not self._stop.is_set():
            self._send(sock, mischief.data)
        if mischief.kind == "silent":
            self._stop.wait(PATIENCE_S)
        return False

    def _send(self, sock: socket.socket, data: bytes) -> None:
        left = memoryview(data)
        while left and not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                left = left[sock.send(left) :]


@contextlib.contextmanager
def serving(
    log: NodeDouble, files: dict[str, bytes], mischief: Mischief | None = None,
    change: Callable[[GroupDouble], None] = lambda _: None, spoil: Callable[[CopyServer], None] = lambda _: None,
) -> Iterator[HostileServer]:  # fmt: skip
    """A master that is its whole group, and serves copies of its files.

    Arguments:
        log: the node; its port is set.
        change: what is wrong with the group.
        spoil: what is wrong with the copies.
    """
    group = GroupDouble([log], log.name, quiet=lambda: time.sleep(_PAUSE_S))
    copies = CopyServer(files)
    change(group)
    spoil(copies)
    server = HostileServer(group, copies, mischief)
    log.port = server.port
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join(PATIENCE_S)


@contextlib.contextmanager
def saying(data: bytes, *, again: bool = False) -> Iterator[int]:
    """A server of something else, which sends this at once, and again and again if wanted; gives its port."""
    stop = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    listener.settimeout(_PAUSE_S)

    def serve(sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            sock.sendall(data)
            while again and not stop.is_set():
                sock.sendall(data)
            stop.wait(_PAUSE_S * 20)

    def run() -> None:
        while not stop.is_set():
            try:
                sock = listener.accept()[0]
            except TimeoutError:
                continue
            except OSError:
                return
            threading.Thread(target=serve, args=(sock,), daemon=True).start()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        stop.set()
        thread.join(PATIENCE_S)
        listener.close()
