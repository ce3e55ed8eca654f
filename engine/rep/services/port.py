"""The port of a node: a caller names a service, which then gets the connection.

* If the node currently lacks the service, it answers UNKNOWN_SERVICE; nodes of JE show in this way that they are not
  master. If the service is at its limit, the answer is BUSY.
* Each connection has its own thread. An error ends only its connection.
* A caller that names no service within ten seconds is disconnected. At most 64 connections may wait for the name of a
  service; one more disconnects the oldest, since a node names its service at once, and the oldest is likely an idle
  socket.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from engine.errors import FormatError, JetoolError
from engine.rep.client.connection import Address, Connection, SocketConnection
from engine.rep.client.tls import TlsConnection
from engine.rep.peers import address_text
from engine.rep.service_port import ServicePort
from engine.rep.services.caller import STEP_S, Caller
from engine.rep.wire.services import Status

_MOST_UNNAMED: Final = 64


class Service:
    """What serves callers.

    Arguments:
        serve: handles one call; the connection is closed when it returns.
        places: most calls at a time.
        trusted: only for callers that present a trusted certificate, or run on the same machine.
    """

    def __init__(self, serve: Callable[[Caller], None], places: int, *, trusted: bool = False) -> None:
        self._serve = serve
        self._trusted = trusted
        self._places = threading.BoundedSemaphore(places)

    def take(self, caller: Caller) -> None:
        """Serve one caller, or refuse it if the limit is reached or it is not trusted."""
        if self._trusted and not caller.trusted:
            caller.answer(Status.INVALID)
            return
        if not self._places.acquire(blocking=False):
            caller.answer(Status.BUSY)
            return
        try:
            caller.answer(Status.OK)
            self._serve(caller)
        finally:
            self._places.release()


Services = Callable[[], Mapping[str, Service]]


class Port:
    """Listens, and passes each connection to the requested service.

    Arguments:
        listen: the address.
        services: returns the current services of the node, by name.
        tls: certificates and trust of the node; None: without TLS.
    """

    def __init__(self, listen: Address, services: Services, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._services = services
        self._mutex = threading.Lock()
        self._unnamed: dict[Caller, None] = {}
        self._named: set[Caller] = set()
        self._closed = False
        self._port = ServicePort(listen, "listens", self._accepted)

    def bind(self) -> None:
        """Bind the address; callers are refused until ``start``.

        Raises:
            StorageError: the address cannot be bound.
        """
        self._port.bind()

    def start(self) -> None:
        """Begin to listen.

        Raises:
            StorageError: the address cannot be listened on.
        """
        self._port.start()

    def close(self) -> None:
        """Accept no more calls, and end all current ones."""
        self._port.close()
        with self._mutex:
            self._closed = True
            callers = [*self._unnamed, *self._named]
        for caller in callers:
            caller.close()

    def serve(self, connection: Connection, peer: str, *, local: bool = False) -> None:
        """Serve one connection to its end; ``local``: it comes from this machine."""
        secure = TlsConnection(connection, peer, self._tls, host=None) if self._tls is not None else None
        caller = Caller(secure or connection, peer, trusted=local or secure is not None)
        if not self._come(caller):
            caller.close()
            return
        try:
            # Whatever a caller does, only its own connection ends.
            with contextlib.suppress(JetoolError):
                if secure is not None:
                    secure.shake_hands(time.monotonic() + STEP_S)
                self._serve(caller)
        finally:
            caller.close()
            with self._mutex:
                self._unnamed.pop(caller, None)
                self._named.discard(caller)

    def _serve(self, caller: Caller) -> None:
        try:
            name = caller.service()
        except FormatError:
            caller.answer(Status.FORMAT_ERROR)
            return
        with self._mutex:
            if caller not in self._unnamed:
                return  # This connection was just disconnected to make room for others.
            del self._unnamed[caller]
            self._named.add(caller)
        service = self._services().get(name)
        if service is None:
            caller.answer(Status.UNKNOWN_SERVICE)
            return
        service.take(caller)

    def _come(self, caller: Caller) -> bool:
        """Register a new connection; False if the port was closed after it was accepted."""
        with self._mutex:
            if self._closed:
                return False
            oldest = next(iter(self._unnamed)) if len(self._unnamed) >= _MOST_UNNAMED else None
            if oldest is not None:
                del self._unnamed[oldest]
            self._unnamed[caller] = None
        if oldest is not None:
            oldest.close()
        return True

    def _accepted(self, sock: socket.socket, address: Any) -> None:
        peer = address_text(address)
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = SocketConnection(sock, peer)
        local = ipaddress.ip_address(address[0].partition("%")[0]).is_loopback
        threading.Thread(
            target=self.serve, args=(connection, peer), kwargs={"local": local}, name=f"serves {peer}", daemon=True
        ).start()
