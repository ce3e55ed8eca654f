"""A proxy in front of an honest node, which spoils what the node answers from one byte on."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator

from tests.support.groups.hostile_server import Mischief
from tests.support.waiting import PATIENCE_S

_PAUSE_S = 0.01
_DRIP_S = 0.05


class SpoiledLink:
    """Listens on loopback; use ``spoiled``.

    Attributes:
        port: where.
        answered: bytes that the node has answered so far, over all connections.
    """

    def __init__(self, listener: socket.socket, target: tuple[str, int], mischief: Mischief | None) -> None:
        self._target = target
        self._mischief = mischief
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._listener = listener
        self._threads: list[threading.Thread] = []
        self.port: int = listener.getsockname()[1]
        self.answered = 0

    def run(self) -> None:
        """Take calls until ``close``."""
        self._listener.settimeout(_PAUSE_S)
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                caller = self._listener.accept()[0]
                thread = threading.Thread(target=self._carry, args=(caller,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def close(self) -> None:
        """End all connections."""
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def _carry(self, caller: socket.socket) -> None:
        with caller, contextlib.suppress(OSError), socket.create_connection(self._target) as node:
            while not self._stop.is_set():
                ready = select.select([caller, node], [], [], _PAUSE_S)[0]
                if caller in ready:
                    asked = caller.recv(1 << 16)
                    if not asked:
                        return
                    node.sendall(asked)
                if node in ready:
                    answer = node.recv(1 << 16)
                    if not answer or not self._answer(caller, answer):
                        return

    def _answer(self, caller: socket.socket, data: bytes) -> bool:
        """Hand on an answer, or what becomes of it; whether the connection goes on."""
        with self._lock:
            begin = self.answered
            self.answered += len(data)
        mischief = self._mischief
        if mischief is None or begin + len(data) <= mischief.at:
            caller.sendall(data)
            return True
        cut = max(mischief.at - begin, 0)
        if mischief.kind == "replace":
            whole = data[:cut] + mischief.data + data[cut + len(mischief.data) :]
            caller.sendall(whole[: len(data)] if begin <= mischief.at else data)
            return True
        caller.sendall(data[:cut])
        if mischief.kind == "drip":
            for at in range(cut, len(data)):
                caller.sendall(data[at : at + 1])
                if self._stop.wait(_DRIP_S):
                    return False
            return True
        while mischief.kind == "flood" and not self._stop.is_set():
            caller.sendall(mischief.data)
        if mischief.kind == "silent":
            self._stop.wait(PATIENCE_S)
        return False


@contextlib.contextmanager
def spoiled(target: tuple[str, int], mischief: Mischief | None = None) -> Iterator[SpoiledLink]:
    """A link to a node that listens at ``target``."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    link = SpoiledLink(listener, target, mischief)
    thread = threading.Thread(target=link.run, daemon=True)
    thread.start()
    try:
        yield link
    finally:
        link.close()
        thread.join(PATIENCE_S)
        listener.close()
