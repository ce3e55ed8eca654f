"""A TCP proxy on loopback that can be cut: the network between two nodes."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence
from itertools import permutations


class Network:
    """The network between nodes: a proxy for each pair and direction.

    Arguments:
        ports: where the nodes listen.
    """

    def __init__(self, ports: Sequence[int]) -> None:
        self.links = {(a, b): Proxy(ports[b]) for a, b in permutations(range(len(ports)), 2)}

    def port(self, caller: int, called: int) -> int:
        """Where one node finds another."""
        return self.links[caller, called].port

    def isolate(self, n: int, *, silently: bool = False) -> None:
        """Cut a node off from all others; ``silently``: no connection ends."""
        for ends, proxy in self.links.items():
            if n in ends:
                (proxy.freeze if silently else proxy.cut)()

    def mend(self) -> None:
        """All can reach all others again."""
        for proxy in self.links.values():
            proxy.mend()

    def close(self) -> None:
        """Stop."""
        for proxy in self.links.values():
            proxy.close()


class Proxy:
    """Carries bytes between who connects to ``port`` and a target, until it is cut.

    Arguments:
        target: port on loopback.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._mutex = threading.Lock()
        self.port: int = self._server.getsockname()[1]
        self.is_cut = False
        self._flowing = threading.Event()
        self._flowing.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End all connections, and take no more."""
        with self._mutex:
            self.is_cut = True
            for sock in self._open:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def freeze(self) -> None:
        """Carry nothing on, and end nothing: a network that swallows what is sent."""
        self._flowing.clear()

    def mend(self) -> None:
        """Take connections again, and carry on."""
        with self._mutex:
            self.is_cut = False
        self._flowing.set()

    def close(self) -> None:
        """Stop."""
        self.cut()
        self._flowing.set()
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._server.accept()
            except OSError:
                return
            try:
                target = socket.create_connection(("127.0.0.1", self._target), 2)
            except OSError:
                caller.close()
                continue
            with self._mutex:
                if self.is_cut:
                    caller.close()
                    target.close()
                    continue
                self._open |= {caller, target}
            for source, sink in ((caller, target), (target, caller)):
                threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            source.settimeout(None)
            while data := source.recv(65536):
                self._flowing.wait()
                sink.sendall(data)
        for sock in (source, sink):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        with self._mutex:
            self._open.discard(source)
        source.close()
