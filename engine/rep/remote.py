"""The operator's side of ``engine.rep.records``: one request to a running node, and what came of it.

A write that is sent to another node than the master goes on, once, to the master that this node names. When the
connection ends between a write and its answer, or the answer makes no sense, nobody knows whether it was committed:
that is an error of its own, so that no script takes it for a refusal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from engine.errors import (
    FormatError,
    JetoolError,
    NotFoundError,
    RefusedError,
    StorageError,
    UnsupportedError,
    UsageError,
)
from engine.rep.acks import InsufficientAcksError
from engine.rep.client.call import Call
from engine.rep.client.connection import Network
from engine.rep.frames import Frame, PeerError
from engine.rep.handshake import NotMasterError, Purpose, call, check_secret
from engine.rep.messages import Message, nonsense
from engine.rep.operator import OPERATOR
from engine.rep.records import (
    INCOMPLETE,
    DeleteRequest,
    GetRequest,
    PutRequest,
    Refusal,
    WriteReceipt,
    decode_records,
    decode_refusal,
    decode_written,
    encode_delete,
    encode_get,
    encode_put,
)
from engine.rep.wire.records import RECORDS, VERSION, RecordAnswer, RecordRequest

Address = tuple[str, int]
# Takes a request to a node and brings its answer, within so many seconds.
Door = Callable[[Address, Frame, float], Frame]
_CONNECT_S: Final = 5.0
_ERRORS: Final[dict[int, type[JetoolError]]] = {
    error.exit_code: error for error in (UsageError, RefusedError, NotFoundError, UnsupportedError, StorageError)
}


class UnknownOutcomeError(JetoolError):
    """A write may have been committed, or not."""

    exit_code = INCOMPLETE
    kind = "unknown_outcome"


class RemoteWrite(NamedTuple):
    """A write that was acknowledged, and the master that has done it."""

    master: Address
    written: WriteReceipt


class CutOffError(Exception):
    """The connection has failed after the request had left, or while it did."""

    def __init__(self, cause: PeerError) -> None:
        self.cause = cause
        super().__init__(str(cause))


def with_secret(secret: bytes) -> Door:
    """To nodes of a group of jetool nodes. Raises UsageError: the secret is too short."""
    checked = check_secret(secret)

    def exchange(address: Address, request: Frame, timeout_s: float) -> Frame:
        channel = call(address, OPERATOR, Purpose.RECORDS, checked, _CONNECT_S)
        try:
            channel.send(*request)
            return channel.receive(timeout_s)
        except PeerError as error:
            raise CutOffError(error) from error
        finally:
            channel.close()

    return exchange


def by_je(network: Network) -> Door:
    """To nodes in a group of JE."""

    def exchange(address: Address, request: Frame, timeout_s: float) -> Frame:
        with Call(network, address, RECORDS.service, timeout_s) as channel:
            try:
                channel.send(RECORDS, VERSION, RecordRequest(kind=request.type, payload=request.payload))
                answer = channel.receive(RECORDS, VERSION, RecordAnswer)
            except PeerError as error:
                raise CutOffError(error) from error
        return Frame(answer.kind, answer.payload)

    return exchange


def put_record(address: Address, door: Door, request: PutRequest, timeout_s: float) -> RemoteWrite:
    """Write a record through a node; it is durable, and acknowledged as the master's policy asks.

    Arguments:
        door: how a request gets there.
        timeout_s: longest wait for the answer.

    Raises:
        NotFoundError: there is no such database. RefusedError: there is a record, too few replicas are connected, or
            no master is known. UnknownOutcomeError: it may have been committed. PeerError: the node turns us away.
    """
    return _write(address, door, Frame(Message.PUT, encode_put(request)), timeout_s)


def delete_record(address: Address, door: Door, request: DeleteRequest, timeout_s: float) -> RemoteWrite:
    """Delete a record through a node; arguments and errors as ``put_record``."""
    return _write(address, door, Frame(Message.DELETE, encode_delete(request)), timeout_s)


def get_record(address: Address, door: Door, request: GetRequest, timeout_s: float) -> list[bytes]:
    """The data items of a key, as that node has them.

    Raises:
        NotFoundError: there is no such database or record. RefusedError: it has not replayed the VLSN in time.
            DisconnectedError: it has gone. PeerError: it turns us away.
    """
    frame = _ask(address, door, Frame(Message.GET, encode_get(request)), timeout_s)
    if frame.type != Message.RECORDS:
        raise nonsense(f"{address[0]}:{address[1]}", f"message {frame.type}")
    return decode_records(frame.payload)


def _write(address: Address, door: Door, request: Frame, timeout_s: float) -> RemoteWrite:
    try:
        frame = _ask(address, door, request, timeout_s)
    except NotMasterError as error:
        if error.master is None:
            raise
        # Once only: two nodes may each take the other for the master.
        address = error.master
        frame = _ask(address, door, request, timeout_s)
    if frame.type != Message.WRITTEN:
        raise _unknown(nonsense(f"{address[0]}:{address[1]}", f"message {frame.type}"))
    try:
        return RemoteWrite(address, decode_written(frame.payload))
    except FormatError as error:
        raise _unknown(error) from error


def _ask(address: Address, door: Door, request: Frame, timeout_s: float) -> Frame:
    """Send a request, and give its answer.

    Raises:
        JetoolError: what the node answers instead.
    """
    peer = f"{address[0]}:{address[1]}"
    try:
        frame = door(address, request, timeout_s)
        refusal = decode_refusal(frame.payload) if frame.type == Message.REFUSAL else None
    except CutOffError as error:
        # A read can be repeated; only a write leaves something unknown, whatever has become of its answer.
        cause = error.cause
        if request.type == Message.GET:
            raise cause from error
        raise _unknown(cause) from error
    except FormatError as error:
        if request.type == Message.GET:
            raise nonsense(peer, error) from error
        raise _unknown(error) from error
    if refusal is not None:
        raise _error(refusal)
    return frame


def _unknown(error: Exception) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        "no answer to a write has come",
        found=str(error),
        consequence="whether it was committed is not known",
        hint="read the record with jetool node get, from the node that is the master then",
    )


def _error(refusal: Refusal) -> JetoolError:
    """The error that a node has met."""
    made = _ERRORS.get(refusal.exit_code, RefusedError)
    if refusal.kind == InsufficientAcksError.kind:
        made = UnknownOutcomeError
    elif refusal.kind == NotMasterError.kind:
        made = NotMasterError
    error = made(
        refusal.what,
        expected=refusal.expected or None,
        found=refusal.found or None,
        consequence=refusal.consequence or None,
        hint=refusal.hint or None,
    )
    host, _, port = refusal.found.rpartition(":")
    if isinstance(error, NotMasterError) and port.isdecimal() and 0 < int(port) < 1 << 16:
        error.master = (host.strip("[]"), int(port))
    return error
