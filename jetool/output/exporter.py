"""A page of metrics over HTTP: GET and HEAD of ``/metrics``, and nothing else.

The server shows the last page that it was given, so that a scrape costs no sample, however many callers there are. It
reads no body, keeps no connection, serves a few callers at a time, and closes a connection that is not done after ten
seconds. There is no authentication: by default only this machine can call it.

Example::

    with PageServer(("127.0.0.1", 9464)) as server:
        server.show(node_metrics(samples))
        print(server.address)
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final

from engine.errors import StorageError
from engine.rep.peers import address_text
from jetool.output.metrics import CONTENT_TYPE

PATH: Final = "/metrics"
_MOST_CALLERS: Final = 16
_LONGEST_CALL_S: Final = 10.0
_IDLE_S: Final = 5.0
_BACKLOG: Final = 16


class _Handler(BaseHTTPRequestHandler):
    """Answers one request; the connection is closed afterwards."""

    server: _Server
    timeout = _IDLE_S
    server_version = "jetool"
    sys_version = ""

    # The names are those that the standard library looks up.
    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        if self.path.partition("?")[0] != PATH:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        page = self.server.page
        if page is None:
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, "no sample yet")
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        if with_body:
            self.wfile.write(page)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: what callers send must not reach the terminal."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = _BACKLOG
    page: bytes | None = None

    def __init__(self, address: tuple[Any, ...], family: socket.AddressFamily) -> None:
        self.address_family = family
        self._calls: dict[socket.socket, float] = {}
        self._guard = threading.Lock()
        super().__init__(address[:2], _Handler)

    def server_bind(self) -> None:
        """Bind without the name look-up of the standard library, which may take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002 - the standard library's
        """Turn a caller away while too many are being served."""
        with self._guard:
            if len(self._calls) >= _MOST_CALLERS:
                return False
            self._calls[request] = time.monotonic() + _LONGEST_CALL_S
        return True

    def shutdown_request(self, request: Any) -> None:
        """The call is over."""
        with self._guard:
            self._calls.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End calls that take too long; called twice a second."""
        now = time.monotonic()
        with self._guard:
            late = [call for call, until in self._calls.items() if until < now]
        for call in late:
            # The thread that serves it sees the end of the stream, and closes it.
            with contextlib.suppress(OSError):
                call.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that goes away early is no error of this program."""


class PageServer:
    """Serves one page in a thread, until the end of the ``with`` block.

    Arguments:
        listen: host and port; port 0 takes any that is free.

    Raises:
        StorageError: the address cannot be listened at.
    """

    def __init__(self, listen: tuple[str, int]) -> None:
        try:
            family, _, _, _, address = socket.getaddrinfo(*listen, type=socket.SOCK_STREAM)[0]
            self._server = _Server(address, family)
        except (OSError, UnicodeError) as error:
            raise StorageError(
                f"cannot listen at {address_text(listen)}",
                found=getattr(error, "strerror", None) or str(error),
                consequence="nothing was started",
                hint="choose another port, or end the program that has it",
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)

    @property
    def address(self) -> str:
        """Where it listens, as ``HOST:PORT``."""
        return address_text(self._server.socket.getsockname())

    def show(self, page: bytes) -> None:
        """Replace the page."""
        self._server.page = page

    def __enter__(self) -> PageServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
