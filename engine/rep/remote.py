"""The client of ``engine.rep.records``: sends one request to a running node, and returns the result.

A write sent to a node that is not the master is forwarded, once, to the master that this node names. If the connection
ends between a write and its answer, or the answer is invalid, it is unknown whether the write was committed. This case
has an error of its own, so that no script treats it as a refusal.
"""

from __future__ import annotations

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
from engine.rep.peers import PeerError, nonsense
from engine.rep.records import (
    INCOMPLETE,
    DeleteRequest,
    GetRequest,
    NotMasterError,
    PutRequest,
    RecordKind,
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
_ERRORS: Final[dict[int, type[JetoolError]]] = {
    error.exit_code: error for error in (UsageError, RefusedError, NotFoundError, UnsupportedError, StorageError)
}


class UnknownOutcomeError(JetoolError):
    """It is unknown whether a write was committed."""

    exit_code = INCOMPLETE
    kind = "unknown_outcome"


class RemoteWrite(NamedTuple):
    """An acknowledged write, and the master that committed it."""

    master: Address
    written: WriteReceipt


def put_record(network: Network, address: Address, request: PutRequest, timeout_s: float) -> RemoteWrite:
    """Write a record through a node; it is durable, and acknowledged as the master's policy asks.

    Arguments:
        network: opens the connection to the node.
        timeout_s: longest wait for the answer.

    Raises:
        NotFoundError: there is no such database. RefusedError: the record exists, too few replicas are connected, or no
            master is known. UnknownOutcomeError: the write may have been committed. PeerError: the node refuses the
            call.
    """
    return _write(network, address, RecordRequest(kind=RecordKind.PUT, payload=encode_put(request)), timeout_s)


def delete_record(network: Network, address: Address, request: DeleteRequest, timeout_s: float) -> RemoteWrite:
    """Delete a record through a node; arguments and errors as ``put_record``."""
    return _write(network, address, RecordRequest(kind=RecordKind.DELETE, payload=encode_delete(request)), timeout_s)


def get_record(network: Network, address: Address, request: GetRequest, timeout_s: float) -> list[bytes]:
    """The data items of a key on that node.

    Raises:
        NotFoundError: there is no such database or record. RefusedError: the node has not replayed the VLSN in time.
            DisconnectedError: the node has gone. PeerError: the node refuses the call.
    """
    answer = _ask(network, address, RecordRequest(kind=RecordKind.GET, payload=encode_get(request)), timeout_s)
    if answer.kind != RecordKind.RECORDS:
        raise nonsense(f"{address[0]}:{address[1]}", f"message {answer.kind}")
    return decode_records(answer.payload)


def _write(network: Network, address: Address, request: RecordRequest, timeout_s: float) -> RemoteWrite:
    try:
        answer = _ask(network, address, request, timeout_s)
    except NotMasterError as error:
        if error.master is None:
            raise
        # Forward only once: two nodes may each consider the other to be the master.
        address = error.master
        answer = _ask(network, address, request, timeout_s)
    if answer.kind != RecordKind.WRITTEN:
        raise _unknown(nonsense(f"{address[0]}:{address[1]}", f"message {answer.kind}"))
    try:
        return RemoteWrite(address, decode_written(answer.payload))
    except FormatError as error:
        raise _unknown(error) from error


def _ask(network: Network, address: Address, request: RecordRequest, timeout_s: float) -> RecordAnswer:
    """Send a request and return its answer.

    Raises:
        JetoolError: the error in the node's answer.
    """
    peer = f"{address[0]}:{address[1]}"
    sent = False
    try:
        with Call(network, address, RECORDS.service, timeout_s) as channel:
            sent = True
            channel.send(RECORDS, VERSION, request)
            answer = channel.receive(RECORDS, VERSION, RecordAnswer)
        refusal = decode_refusal(answer.payload) if answer.kind == RecordKind.REFUSAL else None
    except PeerError as error:
        # A read can be repeated; only the outcome of a write can be unknown.
        if not sent or request.kind == RecordKind.GET:
            raise
        raise _unknown(error) from error
    except FormatError as error:
        if request.kind == RecordKind.GET:
            raise nonsense(peer, error) from error
        raise _unknown(error) from error
    if refusal is not None:
        raise _error(refusal)
    return answer


def _unknown(error: Exception) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        "no answer to a write has come",
        found=str(error),
        consequence="whether it was committed is not known",
        hint="read the record with jetool node get, from the node that is the master then",
    )


def _error(refusal: Refusal) -> JetoolError:
    """The error that a node reports."""
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
