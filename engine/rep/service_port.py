"""The listening socket of a node. Each connection is passed on, and an error with one does not affect others."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from engine.errors import StorageError
from engine.rep.peers import address_text

# A burst of callers waits in this queue. If it is full, a caller hangs, since the kernel drops its SYN without an
# answer.
_BACKLOG: Final = socket.SOMAXCONN
_PAUSE_S: Final = 0.05


class ServicePort:
    """Listens in a thread of its own.

    Arguments:
        listen: the address.
        name: of the thread.
        take: called with each connection and its address; it must not block, since all other callers wait.
    """

    def __init__(self, listen: tuple[str, int], name: str, take: Callable[[socket.socket, Any], None]) -> None:
        self._address = listen
        self._name = name
        self._take = take
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._closing = False

    def bind(self) -> None:
        """Bind the address; before ``start`` callers are refused, as at a closed port.

        Raises:
            StorageError: the address cannot be bound.
        """
        with self._telling_why():
            family, _, _, _, address = socket.getaddrinfo(
                *self._address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            self._socket = socket.socket(family)
            if os.name == "posix":
                # Allows binding the address of a node that has just ended.
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            self._socket.bind(address)

    def start(self) -> None:
        """Begin to listen.

        Raises:
            StorageError: the address cannot be bound, or another process has begun to listen there meanwhile.
        """
        if self._socket is None:
            self.bind()
        listener = self._socket
        assert listener is not None
        with self._telling_why():
            listener.listen(_BACKLOG)
        self._thread = threading.Thread(target=self._accept, args=(listener,), name=self._name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more calls."""
        self._closing = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # Wakes the listening thread; closing alone does not.
            self._socket.close()
        if self._thread is not None:
            self._thread.join()

    @contextlib.contextmanager
    def _telling_why(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:  # ValueError: the name is not a valid host name.
            self.close()
            raise StorageError(
                f"cannot listen on {address_text(self._address)}", found=getattr(error, "strerror", "") or str(error)
            ) from error

    def _accept(self, listener: socket.socket) -> None:
        while not self._closing:
            try:
                connection, address = listener.accept()
            except OSError:  # No descriptor is free, or the caller has already disconnected.
                # Without a pause the loop would spin until a descriptor is free.
                time.sleep(_PAUSE_S)
                continue
            self._take(connection, address)
