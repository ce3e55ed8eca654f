"""TLS between nodes, as in JE with ``je.rep.channelType=ssl`` (je-ha-protocol.md 2.1).

TLS begins with the first byte and carries the same bytes as without: ``Service:`` and the messages. The certificates of
a group are its own, so trust comes from a file. As in JE the name in a certificate is not checked unless requested: a
node is trusted because its key is certified by the file. A node with ``je.rep.ssl.authenticator`` also requires a
certificate of the client.

``TlsConnection`` wraps any other connection and keeps the bytes in between in memory. So one thread may send while
another receives, which ``ssl.SSLSocket`` does not allow.
"""

from __future__ import annotations

import ssl
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.errors import NotFoundError, StorageError, UsageError
from engine.rep.client.connection import Address, Connection, Network
from engine.rep.peers import DisconnectedError, PeerError, address_text

_RECEIVE_BYTES: Final = 1 << 18
# Types of the first record that a side sends: its part of the handshake, or an alert.
_RECORD_TYPES: Final = b"\x15\x16"
# Errors of OpenSSL for a peer that does not use TLS: its first bytes are not a record.
_NOT_TLS: Final = (
    "WRONG_VERSION_NUMBER",
    "RECORD_LAYER_FAILURE",
    "UNKNOWN_PROTOCOL",
    "HTTP_REQUEST",
    "PACKET_LENGTH_TOO_LONG",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The trusted certificates and the own certificate of a side, in PEM.

    Attributes:
        ca: trusted certificates.
        cert: this side's certificate, with its chain; None: no certificate is presented.
        key: the key of ``cert``, if it is in another file.
        check_host: whether the certificate must name the called host.
    """

    ca: str
    cert: str | None = None
    key: str | None = None
    check_host: bool = False


class TlsNetwork:
    """Connections with TLS over those of another network.

    Arguments:
        network: opens the underlying connections.
        files: the certificates and the key.

    Raises:
        NotFoundError: a file does not exist. UsageError: a file is not a certificate or key, or the key belongs to
            another certificate.
    """

    def __init__(self, network: Network, files: TlsFiles) -> None:
        self._network = network
        self._context = client_context(files)

    def connect(self, address: Address, deadline: float) -> TlsConnection:
        """A connection to a trusted peer.

        Raises:
            DisconnectedError: no process listens, or the peer closes. PeerError: the peer is not trusted, or does not
                use TLS.
        """
        plain = self._network.connect(address, deadline)
        try:
            connection = TlsConnection(plain, address_text(address), self._context, host=address[0])
            connection.shake_hands(deadline)
        except BaseException:
            plain.close()
            raise
        return connection


class TlsConnection:
    """One connection; one thread may send while another receives.

    Arguments:
        plain: carries the bytes.
        peer: how messages name the other side.
        context: of this side.
        host: the name under which the client has called the server; None on the server side.
    """

    def __init__(self, plain: Connection, peer: str, context: ssl.SSLContext, *, host: str | None) -> None:
        self._plain = plain
        self._peer = peer
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=host is None, server_hostname=host)
        self._state = threading.Lock()
        # Records must be sent in the order in which they were made. ``_order`` is acquired before ``_state``.
        self._order = threading.Lock()

    def shake_hands(self, deadline: float) -> None:
        """Do the TLS handshake, before anything else.

        Raises:
            DisconnectedError: the other side has closed, or does not answer.
            PeerError: the other side is not trusted, or does not use TLS.
        """
        first = b""
        try:
            while True:
                try:
                    self._tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    self._flush(deadline)
                    data = self._plain.receive(deadline)
                    if not data and first and first[0] not in _RECORD_TYPES:
                        raise self._no_tls(f"it answers {first[:1].hex()}") from None
                    if not data:
                        raise DisconnectedError(
                            f"{self._peer} closes the connection in the TLS handshake",
                            hint="does it speak TLS (je.rep.channelType=ssl)?",
                        ) from None
                    first = first or data
                    self._incoming.write(data)
            self._flush(deadline)
        except ssl.SSLError as error:
            raise self._failure(error) from error

    def send(self, data: bytes, deadline: float) -> None:
        """Send all of it."""
        rest = memoryview(data)
        try:
            with self._order:
                while rest:
                    with self._state:
                        rest = rest[self._tls.write(rest) :]
                        records = self._outgoing.read()
                    self._plain.send(records, deadline)
        except ssl.SSLError as error:
            raise self._failure(error) from error

    def receive(self, deadline: float) -> bytes:
        """Received bytes; empty if the other side has closed."""
        try:
            while True:
                with self._state:
                    try:
                        data = self._tls.read(_RECEIVE_BYTES)
                    except ssl.SSLWantReadError:
                        pass
                    # JE closes without a TLS close alert when its process ends; messages have their own lengths.
                    except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                        return b""
                    else:
                        return data
                self._flush(deadline)
                came = self._plain.receive(deadline)
                with self._state:
                    if came:
                        self._incoming.write(came)
                    else:
                        self._incoming.write_eof()
        except ssl.SSLError as error:
            raise self._failure(error) from error

    def close(self) -> None:
        """Close the connection; a thread that waits here gets an error."""
        self._plain.close()

    def _flush(self, deadline: float) -> None:
        # A reader must not wait for a sender that waits for the other side to read: both would wait forever. Remaining
        # bytes, such as a new key, are sent before the next data.
        if not self._order.acquire(blocking=False):
            return
        try:
            with self._state:
                records = self._outgoing.read()
            if records:
                self._plain.send(records, deadline)
        finally:
            self._order.release()

    def _failure(self, error: ssl.SSLError) -> PeerError:
        reason = error.reason or str(error)
        if isinstance(error, ssl.SSLCertVerificationError):
            return PeerError(
                f"{self._peer} shows a certificate that is not trusted",
                found=error.verify_message,
                hint="--tls-ca names the certificates of the group, or of who has signed them",
            )
        if reason in _NOT_TLS:
            return self._no_tls(reason)
        if "ALERT" in reason:
            return PeerError(
                f"{self._peer} does not accept this side of the TLS connection",
                found=reason,
                hint="a group with an authenticator wants a certificate that it trusts: --tls-cert",
            )
        return PeerError(f"the TLS connection with {self._peer} has failed", found=reason)

    def _no_tls(self, found: str) -> PeerError:
        return PeerError(
            f"{self._peer} does not speak TLS", found=found, hint="leave --tls-ca out for a group without TLS"
        )


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """The TLS settings of a client. Raises as ``TlsNetwork``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = files.check_host
    _load(context, files)
    return context


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """The TLS settings of a node for its callers; callers without a certificate are refused.

    Raises:
        UsageError: there is no certificate to present, or as for ``TlsNetwork``.
    """
    if files.cert is None:
        raise UsageError("a node that others call shows a certificate", hint="--tls-cert and --tls-key name it")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    _load(context, files)
    return context


def _load(context: ssl.SSLContext, files: TlsFiles) -> None:
    for path in filter(None, (files.ca, files.cert, files.key)):
        try:
            with Path(path).open("rb"):
                pass
        except FileNotFoundError as error:
            raise NotFoundError("no such file", file=path) from error
        except OSError as error:
            raise StorageError("cannot read", file=path, found=error.strerror) from error
    try:
        context.load_verify_locations(files.ca)
    except ssl.SSLError as error:
        raise UsageError(
            "not a file of certificates in PEM",
            file=files.ca,
            found=error.reason or str(error),
            hint="keytool -exportcert -rfc takes one out of a store of Java",
        ) from error
    if files.cert is None:
        return
    try:
        context.load_cert_chain(files.cert, files.key, password=_no_password)
    except _EncryptedKeyError as error:
        raise UsageError(
            "the key has a password",
            file=files.key or files.cert,
            hint="openssl pkey writes it without one, in a file that only jetool's user can read",
        ) from error
    except ssl.SSLError as error:
        raise UsageError(
            "not a certificate and its key in PEM",
            file=files.cert,
            found=error.reason or str(error),
            hint="--tls-key names the file of the key",
        ) from error


class _EncryptedKeyError(Exception):
    pass


def _no_password() -> str:
    # OpenSSL would ask on the terminal, and an unattended program would wait forever.
    raise _EncryptedKeyError
