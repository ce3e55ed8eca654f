"""TLS between a client and recorded nodes: the same answers, and what does not fit is told apart."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import JetoolError, NotFoundError, UsageError
from engine.rep.client.call import Call, TurnedAwayError
from engine.rep.client.connection import Address, Connection, Network, SocketConnection, SocketNetwork
from engine.rep.client.group_state import look
from engine.rep.client.tls import TlsConnection, TlsFiles, TlsNetwork, client_context, server_context
from engine.rep.peers import DisconnectedError, PeerError
from engine.rep.services.port import Port, Service
from jetool.frame import exits, networks
from tests.support.groups.networks import RecordedNetwork
from tests.support.groups.nodes import free_ports
from tests.support.harness import run

HOME = Path(__file__).parent / "tls"
# Self-signed, of localhost, as the nodes of a group use one for all; a stranger's; the key with the password "secret".
NODE, KEY, OTHER, LOCKED = (str(HOME / name) for name in ("node.pem", "node.key.pem", "other.pem", "locked.key.pem"))
TRUSTING = TlsFiles(ca=NODE)
NODES = [("localhost", 15071)]


def server(*, wants: str | None = None) -> ssl.SSLContext:
    """The side of a node; with ``wants`` it asks for a certificate that these vouch for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(NODE, KEY)
    if wants is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(wants)
    return context


class SecureNode:
    """A network whose nodes speak TLS, record by record, in front of nodes that do not."""

    def __init__(self, network: Network, context: ssl.SSLContext) -> None:
        self._network = network
        self._context = context
        self.opened: list[SecureSide] = []

    def connect(self, address: Address, deadline: float) -> SecureSide:
        side = SecureSide(self._network.connect(address, deadline), self._context)
        self.opened.append(side)
        return side


class SecureSide:
    def __init__(self, inner: Connection, context: ssl.SSLContext) -> None:
        self._inner = inner
        self._came, self._goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._came, self._goes, server_side=True)
        self._agreed = False
        self.closed = False

    def send(self, data: bytes, deadline: float) -> None:
        self._came.write(data)
        try:
            if not self._agreed:
                self._tls.do_handshake()
                self._agreed = True
            while True:
                self._inner.send(self._tls.read(1 << 16), deadline)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            self.closed = True  # What goes out is the alert that says why.

    def receive(self, deadline: float) -> bytes:
        if not self._goes.pending and self._agreed and not self.closed:
            data = self._inner.receive(deadline)
            if data:
                self._tls.write(data)
        return self._goes.read()

    def close(self) -> None:
        self._inner.close()


def secure(files: TlsFiles = TRUSTING, *, wants: str | None = None) -> TlsNetwork:
    return TlsNetwork(SecureNode(RecordedNetwork("services"), server(wants=wants)), files)


@pytest.mark.parametrize(
    "files",
    [
        TRUSTING,
        TlsFiles(ca=NODE, check_host=True),
        TlsFiles(ca=NODE, cert=NODE, key=KEY),
    ],
)
def test_the_answers_are_those_without_tls(files: TlsFiles) -> None:
    wants = NODE if files.cert else None
    assert look(secure(files, wants=wants), NODES, None, 5) == look(RecordedNetwork("services"), NODES, None, 5)


@pytest.mark.parametrize(
    ("network", "said", "found"),
    [
        (lambda: secure(TlsFiles(ca=OTHER)), "not trusted", "self-signed certificate"),
        (lambda: secure(wants=NODE), "does not accept this side", "CERTIFICATE_REQUIRED"),
        (lambda: TlsNetwork(Plain(b"\x02"), TRUSTING), "does not speak TLS", ""),
        (lambda: TlsNetwork(Plain(b"HTTP/1.1 400 Bad Request"), TRUSTING), "does not speak TLS", ""),
    ],
)
def test_who_is_refused(network: Callable[[], TlsNetwork], said: str, found: str) -> None:
    with pytest.raises(PeerError) as caught:
        first_answer(network())
    assert not isinstance(caught.value, DisconnectedError)
    assert said in str(caught.value)
    assert found in str(caught.value.found)
    assert caught.value.hint


def first_answer(network: TlsNetwork) -> bytes:
    # With TLS 1.3 the client has done its part before the node has looked at its certificate.
    return network.connect(("localhost", 15071), time.monotonic() + 5).receive(time.monotonic() + 5)


class Plain:
    """Nodes without TLS: they answer the first bytes with these, and close."""

    def __init__(self, answer: bytes) -> None:
        self._answers = [answer, b""]
        self.closed = False

    def connect(self, address: Address, deadline: float) -> Plain:
        return self

    def send(self, data: bytes, deadline: float) -> None:
        assert data[0] == 0x16  # A TLS record of the handshake.

    def receive(self, deadline: float) -> bytes:
        return self._answers.pop(0)

    def close(self) -> None:
        self.closed = True


class Silent:
    """A node that closes when it is asked for a service."""

    def connect(self, address: Address, deadline: float) -> Silent:
        return self

    def send(self, data: bytes, deadline: float) -> None:
        assert data.startswith(b"Service:")

    def receive(self, deadline: float) -> bytes:
        return b""

    def close(self) -> None:
        pass


def test_a_node_that_closes_in_the_handshake() -> None:
    node = Plain(b"")
    with pytest.raises(DisconnectedError, match="TLS handshake"):
        TlsNetwork(node, TRUSTING).connect(("localhost", 15071), time.monotonic() + 5)
    assert node.closed


def test_a_node_that_does_not_trust_who_calls() -> None:
    """Nodes of JE agree on TLS, and close then without an alert."""
    with pytest.raises(TurnedAwayError) as caught:
        look(TlsNetwork(SecureNode(Silent(), server()), TRUSTING), NODES, None, 5)
    assert caught.value.exit_code == exits.REFUSED
    assert "--tls-cert" in str(caught.value.hint)


def test_a_host_that_the_certificate_does_not_name() -> None:
    network = secure(TlsFiles(ca=NODE, check_host=True))
    with pytest.raises(PeerError, match="not trusted") as caught:
        network.connect(("127.0.0.1", 15071), time.monotonic() + 5)
    assert "127.0.0.1" in str(caught.value.found)


@pytest.mark.parametrize(
    ("files", "kind", "said"),
    [
        (TlsFiles(ca="no-such-file"), NotFoundError, "no such file"),
        (TlsFiles(ca=KEY), UsageError, "not a file of certificates"),
        (TlsFiles(ca=NODE, cert=NODE), UsageError, "--tls-key"),
        (TlsFiles(ca=NODE, cert=OTHER, key=KEY), UsageError, "not a certificate and its key"),
        (TlsFiles(ca=NODE, cert=NODE, key=LOCKED), UsageError, "password"),
        (TlsFiles(ca=NODE, cert=NODE, key="no-such-file"), NotFoundError, "no such file"),
    ],
)
def test_files_that_do_not_do(files: TlsFiles, kind: type[JetoolError], said: str) -> None:
    with pytest.raises(kind) as caught:
        client_context(files)
    assert said in f"{caught.value} {caught.value.hint}"


def test_two_threads_on_real_sockets() -> None:
    """Megabytes both ways at the same time, then the end."""
    import socket

    near, far = socket.socketpair()
    client = TlsConnection(SocketConnection(near, "node"), "node", client_context(TRUSTING), host="localhost")
    node = TlsConnection(SocketConnection(far, "client"), "client", server(), host=None)
    deadline = time.monotonic() + 30
    payload = bytes(range(256)) * 4096
    got: dict[str, bytes] = {}

    def drain(name: str, side: TlsConnection) -> None:
        data = b""
        while len(data) < 4 * len(payload):
            data += side.receive(deadline)
        got[name] = data

    handshake = threading.Thread(target=node.shake_hands, args=(deadline,))
    handshake.start()
    client.shake_hands(deadline)
    handshake.join()
    readers = [threading.Thread(target=drain, args=one) for one in (("client", client), ("node", node))]
    for thread in readers:
        thread.start()
    writer = threading.Thread(target=node.send, args=(payload * 4, deadline))
    writer.start()
    for _ in range(4):
        client.send(payload, deadline)
    for thread in (writer, *readers):
        thread.join()
    assert got == {"client": payload * 4, "node": payload * 4}
    client.close()
    assert node.receive(deadline) == b""
    node.close()


def test_the_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(networks, "SocketNetwork", lambda: SecureNode(RecordedNetwork("services"), server()))
    show = ("group", "show", "localhost:15071", "--format", "csv", "--fields", "name,master,nodes")
    trusted = run(*show, "--tls-ca", NODE)
    assert b"WIREGRP" in trusted.out, trusted.err
    monkeypatch.setenv("JETOOL_TLS_CA", NODE)
    assert run(*show).out == trusted.out
    strange = run(*show, "--tls-ca", OTHER)
    assert strange.code == exits.REFUSED
    assert "not trusted" in strange.err
    monkeypatch.delenv("JETOOL_TLS_CA")
    alone = run(*show, "--tls-cert", NODE)
    assert (alone.code, "TLS needs --tls-ca" in alone.err) == (exits.USAGE, True)
    to = tmp_path / "changes"
    missing = run("stream", "localhost:15071", "--to", to, "--tls-ca", tmp_path / "none.pem")
    assert (missing.code, to.exists()) == (exits.NOT_FOUND, False)


@pytest.mark.parametrize(
    "words",
    [
        ("group", "show", "{env}"),
        ("backup", "{env}", "{env}-copies"),
    ],
)
def test_a_run_that_calls_no_node(words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(*(word.format(env=tmp_path) for word in words), "--tls-ca", NODE)
    assert (result.code, "--tls-ca: no node of JE is called" in result.err) == (exits.USAGE, True)


def test_a_node_that_answers() -> None:
    """It talks to those who show a certificate that it trusts, and goes on after those who do not."""
    files = TlsFiles(ca=NODE, cert=NODE, key=KEY)
    (listen,) = free_ports(1)
    port = Port(listen, lambda: {"Echo": Service(lambda caller: caller.send_all(b"here", 5), 1)}, server_context(files))
    port.start()
    try:
        for stranger in (SocketNetwork(), TlsNetwork(SocketNetwork(), TRUSTING)):
            with pytest.raises(PeerError):
                Call(stranger, listen, "Echo", 5)
        with Call(TlsNetwork(SocketNetwork(), files), listen, "Echo", 5) as call:
            assert call.raw(4) == b"here"
    finally:
        port.close()


def test_a_node_has_a_certificate() -> None:
    with pytest.raises(UsageError, match="shows a certificate"):
        server_context(TRUSTING)
