"""The address at which a node is called: each caller is handed on, and what goes wrong with one ends nothing else."""

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

# A burst of callers waits here; a caller that finds it full hangs, since the kernel drops its SYN and answers nothing.
_BACKLOG: Final = socket.SOMAXCONN
_PAUSE_S: Final = 0.05


class ServicePort:
    """Listens in a thread of its own.

    Arguments:
        listen: the address.
        name: of the thread.
        take: is called with each connection and its address, and must not wait: it keeps all others waiting.
    """

    def __init__(self, listen: tuple[str, int], name: str, take: Callable[[socket.socket, Any], None]) -> None:
        self._address = listen
        self._name = name
        self._take = take
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._closing = False

    def bind(self) -> None:
        """Take the address; before ``start`` callers are refused, as at a port without a listener.

        Raises:
            StorageError: it cannot be listened on.
        """
        with self._telling_why():
            family, _, _, _, address = socket.getaddrinfo(
                *self._address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            self._socket = socket.socket(family)
            if os.name == "posix":
                # The address of a node that has just ended is free.
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            self._socket.bind(address)

    def start(self) -> None:
        """Begin to listen.

        Raises:
            StorageError: as ``bind``, or another one has begun to listen there meanwhile.
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
                self._socket.shutdown(socket.SHUT_RDWR)  # Wakes the thread that listens; closing alone does not.
            self._socket.close()
        if self._thread is not None:
            self._thread.join()

    @contextlib.contextmanager
    def _telling_why(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:  # ValueError: no host can have the name.
            self.close()
            raise StorageError(
                f"cannot listen on {address_text(self._address)}", found=getattr(error, "strerror", "") or str(error)
            ) from error

    def _accept(self, listener: socket.socket) -> None:
        while not self._closing:
            try:
                connection, address = listener.accept()
            except OSError:  # No descriptor is free, or the caller has gone already.
                # Without a pause the loop would spin until a descriptor is free.
                time.sleep(_PAUSE_S)
                continue
            self._take(connection, address)
