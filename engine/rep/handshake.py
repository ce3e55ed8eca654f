"""How two nodes come to trust each other before anything else is said.

=======  ===========  =============================================================================
message  from         content
=======  ===========  =============================================================================
HELLO    who calls    protocol version, purpose, group, UUID, node, address, clock, nonce
NONCE    who answers  protocol version, nonce
PROOF    who calls    HMAC(secret, "caller", HELLO, NONCE)
WELCOME  who answers  HMAC(secret, "answerer", HELLO, NONCE), then node and clock
REFUSED  who answers  why, as text, the address of the master where that is the reason, and what helps
=======  ===========  =============================================================================

* Nothing of the group is told to a caller that has not proved to know the secret. Only then are group, UUID and clock
  compared; nodes whose clocks differ by more than the limit must not work together, since expiration and the times of
  commits would mean different things on them.
* The caller checks the answerer's proof in the same way: a stranger cannot pose as the master.
* Both nonces make the keys of this connection (``engine.rep.frames``).

The connection is authenticated, not encrypted: on networks that are not trusted it belongs into a tunnel.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import time
from enum import IntEnum
from typing import Final, NamedTuple

from engine.errors import FormatError, UsageError, plural
from engine.format.bytecursor import ByteReader, ByteWriter
from engine.rep.frames import Channel, DisconnectedError, Frame, PeerError, address_text

PROTOCOL_VERSION: Final = 1
LEAST_SECRET_BYTES: Final = 16
DEFAULT_MAX_SKEW_MS: Final = 2000
_NONCE_BYTES: Final = 32
_TIMEOUT_S: Final = 10.0
_HELLO, _NONCE, _PROOF, _WELCOME, _REFUSED = range(1, 6)
NO_UUID: Final = bytes(16)


class Purpose(IntEnum):
    """What a caller wants."""

    FEED = 1
    STATUS = 2
    TRANSFER = 3
    ELECT = 4
    RECORDS = 5


class Identity(NamedTuple):
    """Who a node says it is.

    Attributes:
        group: name of the group; empty when the caller does not know it.
        uuid: of the group, 16 bytes; zeros while it is not known.
        node, host, port: its name and address.
    """

    group: str
    uuid: bytes
    node: str
    host: str
    port: int


class Hello(NamedTuple):
    """What a caller says first."""

    protocol: int
    purpose: int
    identity: Identity
    clock_ms: int


class NotMasterError(PeerError):
    """The node that was called is not the master; ``master`` is the address that it knows, if any."""

    kind = "not_master"
    master: tuple[str, int] | None = None


def check_secret(secret: bytes) -> bytes:
    """The secret without surrounding blanks and line ends.

    Raises:
        UsageError: it is too short.
    """
    trimmed = secret.strip()
    if len(trimmed) < LEAST_SECRET_BYTES:
        raise UsageError(
            "the shared secret is too short",
            expected=f"{LEAST_SECRET_BYTES} bytes or more",
            found=plural(len(trimmed), "byte"),
            hint="make one with: head -c 32 /dev/urandom | base64 > secret",
        )
    return trimmed


def call(address: tuple[str, int], mine: Identity, purpose: Purpose, secret: bytes, timeout_s: float) -> Channel:
    """Connect to a node and prove who we are.

    Arguments:
        timeout_s: for the connection.

    Raises:
        DisconnectedError: nobody is there. PeerError: it refuses us, or cannot prove that it knows the secret.
        NotMasterError: it is not the master, and the purpose needs one.
    """
    name = address_text(address)
    try:
        sock = socket.create_connection(address, timeout_s)
    except (OSError, ValueError) as error:  # ValueError: no host can have the name.
        raise DisconnectedError(
            f"{name} cannot be reached",
            found=getattr(error, "strerror", "") or str(error),
            hint="check the address, and that the node runs",
        ) from error
    channel = Channel(sock, name)
    try:
        _prove(channel, mine, purpose, secret)
    except FormatError as error:
        channel.close()
        senseless = PeerError(f"{name} answers in a way that makes no sense", found=str(error))
        senseless.proved = False
        raise senseless from error
    except PeerError as error:
        channel.close()
        error.proved = False
        raise
    except BaseException:
        # Whatever it is, an interrupt too, the socket must not stay open.
        channel.close()
        raise
    return channel


def _prove(channel: Channel, mine: Identity, purpose: Purpose, secret: bytes) -> None:
    hello = _encode_hello(Hello(PROTOCOL_VERSION, purpose, mine, _now_ms())) + secrets.token_bytes(_NONCE_BYTES)
    channel.send(_HELLO, hello)
    nonce = _expect(channel, _NONCE)
    if len(nonce) != 2 + _NONCE_BYTES:
        raise PeerError(f"{channel.peer} answers in a way that makes no sense")
    channel.send(_PROOF, _proof(secret, b"caller", hello, nonce))
    welcome = _expect(channel, _WELCOME)
    if not hmac.compare_digest(welcome, _proof(secret, b"answerer", hello, nonce)):
        raise PeerError(f"{channel.peer} does not know the shared secret", consequence="it may be no node of the group")
    # One key for each direction: a frame cannot be thrown back at its sender.
    channel.secure(_proof(secret, b"to answerer", hello, nonce), _proof(secret, b"to caller", hello, nonce))


class Answerer:
    """The side that is called.

    Arguments:
        channel: fresh.
        secret: the shared secret.
    """

    def __init__(self, channel: Channel, secret: bytes) -> None:
        self._channel = channel
        self._secret = secret
        self._hello = self._nonce = b""

    def listen(self, timeout_s: float) -> Hello:
        """Let the caller prove that it knows the secret.

        Arguments:
            timeout_s: for greeting and proof together.

        Raises:
            PeerError: it does not, or speaks another protocol; it has been told. DisconnectedError: it has gone.
        """
        deadline = time.monotonic() + timeout_s
        try:
            self._hello = _expect(self._channel, _HELLO, timeout_s)
            hello = _decode_hello(self._hello)
        except FormatError as error:
            raise self.refusal(f"this is no message of a node ({error.what})") from error
        # Before the proof, whose form may differ in another version.
        if hello.protocol != PROTOCOL_VERSION:
            raise self.refusal(
                f"protocol version {hello.protocol} is not spoken here, but {PROTOCOL_VERSION}",
                hint="all nodes need the same version of the program: jetool --version",
            )
        self._nonce = PROTOCOL_VERSION.to_bytes(2, "big") + secrets.token_bytes(_NONCE_BYTES)
        self._channel.send(_NONCE, self._nonce)
        proof = _expect(self._channel, _PROOF, deadline - time.monotonic())
        if not hmac.compare_digest(proof, _proof(self._secret, b"caller", self._hello, self._nonce)):
            raise self.refusal(
                "the shared secret is not the right one", hint="give --secret-file the same contents everywhere"
            )
        return hello

    def check(self, hello: Hello, mine: Identity, max_skew_ms: int) -> None:
        """Compare what both are.

        Raises:
            PeerError: another group, or clocks too far apart; the caller has been told.
        """
        theirs = hello.identity
        # An operator does not know the group, and names none.
        if theirs.group and theirs.group != mine.group:
            raise self.refusal(
                f"this is group {mine.group!r}, not {theirs.group!r}",
                hint="give --peers addresses of its own group; jetool group show prints the group of an environment",
            )
        # A node that has nothing of the group yet does not know its UUID, and may join.
        if NO_UUID not in (theirs.uuid, mine.uuid) and theirs.uuid != mine.uuid:
            raise self.refusal(
                f"this is another group of the name {mine.group!r}: its UUID differs",
                hint="a node of one group joins another with an empty directory only",
            )
        skew = hello.clock_ms - _now_ms()
        if abs(skew) > max_skew_ms:
            raise self.refusal(
                f"the clocks differ by {skew} ms, more than {max_skew_ms} ms",
                hint="set the clocks of both machines by the same server, then start the node again",
            )

    def welcome(self) -> None:
        """Prove that this side knows the secret too; from now on frames are authenticated."""
        key = self._secret
        self._channel.send(_WELCOME, _proof(key, b"answerer", self._hello, self._nonce))
        self._channel.secure(
            _proof(key, b"to caller", self._hello, self._nonce), _proof(key, b"to answerer", self._hello, self._nonce)
        )

    def refusal(self, why: str, master: tuple[str, int] | None = None, hint: str = "") -> PeerError:
        """Tell the caller why it is turned away, and what helps; the error to raise."""
        host, port = master or ("", 0)
        # It is turned away whether or not it still listens.
        with contextlib.suppress(DisconnectedError):
            text = ByteWriter().string(why[:1000]).string(host).i32(port).string(hint)
            self._channel.send(_REFUSED, text.getvalue())
        self._channel.close()
        return PeerError(f"{self._channel.peer} was turned away", found=why)


def _expect(channel: Channel, wanted: int, timeout_s: float = _TIMEOUT_S) -> bytes:
    frame = channel.receive(timeout_s)
    # Only who answers may refuse.
    if frame.type == _REFUSED and wanted in (_NONCE, _WELCOME):
        raise _refused(channel, frame)
    if frame.type != wanted:
        raise PeerError(f"{channel.peer} answers in a way that makes no sense", found=f"message {frame.type}")
    return frame.payload


def _refused(channel: Channel, frame: Frame) -> PeerError:
    reader = ByteReader(frame.payload)
    why, host, port, hint = reader.string(), reader.string(), reader.i32(), reader.string()
    # Without a reason: the node is not the master, and says who is if it knows.
    if not why:
        error = NotMasterError(f"{channel.peer} is not the master")
        error.master = (host, port) if host and 0 < port < 1 << 16 else None
        return error
    return PeerError(
        f"{channel.peer} turns this node away",
        found=why,
        consequence="nothing was changed",
        hint=hint or "compare --node, --group and --peers of both nodes",
    )


def _proof(secret: bytes, role: bytes, hello: bytes, nonce: bytes) -> bytes:
    # With their lengths: no two greetings make the same bytes.
    parts = b"".join(len(part).to_bytes(4, "big") + part for part in (role, hello, nonce))
    return hmac.digest(secret, b"jetool rep 1" + parts, "sha256")


def _encode_hello(hello: Hello) -> bytes:
    who = hello.identity
    writer = ByteWriter().i16(hello.protocol).u8(hello.purpose).string(who.group).byte_array(who.uuid)
    return writer.string(who.node).string(who.host).i32(who.port).i64(hello.clock_ms).getvalue()


def _decode_hello(payload: bytes) -> Hello:
    """Decode a HELLO; of another protocol version nothing but that is decoded.

    Raises:
        FormatError: it is malformed.
    """
    reader = ByteReader(payload)
    protocol, purpose = reader.i16(), reader.u8()
    # What follows may have another form there.
    if protocol != PROTOCOL_VERSION:
        return Hello(protocol, purpose, Identity("", NO_UUID, "", "", 0), 0)
    group, uuid = reader.string(), reader.byte_array()
    node, host, port, clock = reader.string(), reader.string(), reader.i32(), reader.i64()
    nonce = reader.rest()
    if len(uuid) != len(NO_UUID) or len(nonce) != _NONCE_BYTES or not 0 < port < 1 << 16:
        raise FormatError("a greeting with impossible fields")
    return Hello(protocol, purpose, Identity(group, uuid, node, host, port), clock)


def _now_ms() -> int:
    return int(time.time() * 1000)
