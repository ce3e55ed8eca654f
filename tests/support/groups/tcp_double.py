"""A group that is played, on real ports."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator

from engine.rep.peers import DisconnectedError
from tests.support.groups.group_double import GroupDouble, NodeDouble, StreamConnection
from tests.support.waiting import PATIENCE_S

_PAUSE_S = 0.02


@contextlib.contextmanager
def listening(group: GroupDouble) -> Iterator[str]:
    """The nodes of a group on ports of this machine; gives their addresses with commas between."""
    stop, threads, sockets = threading.Event(), [], []
    for node in group.nodes:
        listener = socket.create_server(("127.0.0.1", 0))
        node.port = listener.getsockname()[1]
        sockets.append(listener)
        threads.append(threading.Thread(target=_accept, args=(listener, group, node, stop), daemon=True))
    for thread in threads:
        thread.start()
    try:
        yield ",".join(f"localhost:{node.port}" for node in group.nodes)
    finally:
        stop.set()
        for listener in sockets:
            listener.close()
        for thread in threads:
            thread.join(PATIENCE_S)


def _accept(listener: socket.socket, group: GroupDouble, node: NodeDouble, stop: threading.Event) -> None:
    listener.settimeout(0.1)
    while not stop.is_set():
        try:
            sock, _ = listener.accept()
        except TimeoutError:
            continue
        except OSError:
            return
        threading.Thread(target=_serve, args=(sock, StreamConnection(group, node), stop), daemon=True).start()


def _serve(sock: socket.socket, connection: StreamConnection, stop: threading.Event) -> None:
    with sock, contextlib.suppress(OSError, DisconnectedError):
        while not stop.is_set():
            if select.select([sock], [], [], _PAUSE_S)[0]:
                data = sock.recv(1 << 16)
                if not data:
                    return
                connection.send(data, 0)
            if connection.has_more:
                sock.sendall(connection.receive(0))
            elif connection.ended:
                return
