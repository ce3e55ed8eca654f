"""Reads and writes records through a running node, which has its environment locked.

=======  =======================================================  ==========================================
request  payload                                                  reply
=======  =======================================================  ==========================================
PUT      database, key, data, u8: 1 overwrite, 2 create           WRITTEN: i64 VLSN of the Commit, i32 records
DELETE   database, key, u8 whether an item is named, that item    WRITTEN
GET      database, key, i64 VLSN to wait for, i32 milliseconds    RECORDS: data items
=======  =======================================================  ==========================================

The reply to any request may be a REFUSAL: u8 exit code, kind, what, expected, found, consequence, hint.

* Only the master writes. Other nodes refuse, and name the master that they know.
* A request is one transaction. The reply is sent after the acknowledgements that the master's policy requires. If they
  do not arrive in time, the commit stays in the log and the reply is exit code 7: the outcome is unknown.
* Every node reads its own records. A client that has just written passes the VLSN of the Commit to see it on a replica
  too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

from engine.db.database import Database
from engine.db.environment import Environment
from engine.db.transaction import Transaction
from engine.errors import DatabaseNotFoundError, FormatError, JetoolError, NotFoundError, RefusedError
from engine.format.bytecursor import ByteReader, ByteWriter
from engine.rep.acks import InsufficientAcksError, InsufficientReplicasError
from engine.rep.peers import PeerError
from engine.rep.status import NodeStatus, Role
from engine.rep.wire.records import RecordAnswer, RecordRequest
from engine.txn.payload import PutMode
from engine.txn.txn import TxnState

INCOMPLETE: Final = 7
_MOST_BYTES: Final = 64 << 20
_LEAST_ITEM_BYTES: Final = 1
_TEXT_BYTES: Final = 2000
_MOST_NAMES: Final = 10
_NAMES: Final = "check --db"
_CREATES: Final = "check --db; --create creates the database"
_OVERWRITE: Final = 1
_CREATE: Final = 2


class RecordKind(IntEnum):
    """Operation codes of requests and answers."""

    PUT = 50
    DELETE = 51
    GET = 52
    WRITTEN = 53
    RECORDS = 54
    REFUSAL = 55


class NotMasterError(PeerError):
    """The called node is not the master; ``master`` is the master's address, if the node knows it."""

    kind = "not_master"
    master: tuple[str, int] | None = None


class PutRequest(NamedTuple):
    """Write a record.

    Attributes:
        overwrite: replace an existing record.
        create: create the database, without duplicates, if it does not exist.
    """

    database: str
    key: bytes
    data: bytes
    overwrite: bool
    create: bool = False


class DeleteRequest(NamedTuple):
    """Delete a record; with duplicates all items of the key, or one."""

    database: str
    key: bytes
    item: bytes | None


class GetRequest(NamedTuple):
    """Read a record; with duplicates all items of the key.

    Attributes:
        vlsn: the VLSN that the node must have replayed; 0: do not wait.
        wait_ms: how long to wait for the VLSN.
    """

    database: str
    key: bytes
    vlsn: int
    wait_ms: int


class WriteReceipt(NamedTuple):
    """The result of a write: the VLSN of its Commit, and the number of records written or deleted."""

    vlsn: int
    records: int


class Refusal(NamedTuple):
    """An error in transit: the fields of ``JetoolError`` as texts; empty for missing ones."""

    exit_code: int
    kind: str
    what: str
    expected: str
    found: str
    consequence: str
    hint: str


class RecordHost(Protocol):
    """A node that serves records."""

    @property
    def role(self) -> Role:
        """What it is now."""

    @property
    def environment(self) -> Environment:
        """The environment of the node; raises an error while no environment is open."""

    def status(self) -> NodeStatus:
        """The state that the node reports."""

    def await_vlsn(self, vlsn: int, timeout_s: float) -> bool:
        """Wait until the node has a VLSN."""


def answer(host: RecordHost, request: RecordRequest) -> RecordAnswer | None:
    """Execute a request; None if it is not a record request."""
    serve = _SERVED.get(request.kind)
    if serve is None:
        return None
    try:
        return serve(host, request.payload)
    except JetoolError as error:
        return RecordAnswer(kind=RecordKind.REFUSAL, payload=encode_refusal(_refusal(error)))


def _refusal(error: JetoolError) -> Refusal:
    code, consequence, hint = error.exit_code, error.consequence or "", error.hint or ""
    if isinstance(error, InsufficientAcksError):
        # The master has committed, so a script must not treat this as a refusal.
        code = INCOMPLETE
    elif isinstance(error, InsufficientReplicasError):
        # At this point the transaction has been aborted.
        consequence, hint = (
            "nothing was changed",
            "try again when replicas are back; jetool group show shows them",
        )
    return Refusal(
        exit_code=code,
        kind=error.kind,
        what=error.what,
        expected=error.expected or "",
        found=error.found or "",
        consequence=consequence,
        hint=hint,
    )


class CommittedError(JetoolError):
    """A write was committed, and a later step failed."""

    exit_code = INCOMPLETE
    kind = "committed"


@contextmanager
def _told(env: Environment) -> Iterator[Transaction]:
    """A transaction that reports to its caller that it was committed, even if a later step fails.

    Raises:
        CommittedError: the transaction was committed before the error. InsufficientAcksError: the write was committed,
            but the group does not have it yet.
    """
    txn = env.begin()
    try:
        yield txn
    except InsufficientAcksError:
        raise
    except JetoolError as error:
        if txn.state not in (TxnState.COMMITTED, TxnState.POSSIBLY_COMMITTED):
            if txn.state in (TxnState.OPEN, TxnState.ABORT_ONLY):
                txn.abort()
            raise
        raise CommittedError(
            f"the write was {txn.state.value}, and then the node failed",
            found=str(error),
            consequence="the write may stand on this master; whether replicas have it is not known",
            hint="read the record with jetool node get; jetool group show shows what the replicas have",
        ) from error


def _put(host: RecordHost, payload: bytes) -> RecordAnswer:
    wanted = decode_put(payload)
    env = _led(host)
    mode = PutMode.OVERWRITE if wanted.overwrite else PutMode.INSERT_ONLY
    is_new = wanted.create and wanted.database not in env.database_names()
    with _told(env) as txn, txn:
        # The database is created in the transaction of the record, so that both are undone if it fails.
        db = env.create_database(wanted.database, txn=txn) if is_new else _opened(env, wanted.database, _CREATES)
        with db:
            stored = db.put(wanted.key, wanted.data, txn, mode=mode)
        if not stored:
            raise RefusedError(
                f"there is a record of this key in database {wanted.database!r}", consequence="nothing was changed"
            )
    return RecordAnswer(kind=RecordKind.WRITTEN, payload=encode_written(WriteReceipt(txn.inner.end_vlsn, 1)))


def _delete(host: RecordHost, payload: bytes) -> RecordAnswer:
    wanted = decode_delete(payload)
    env = _led(host)
    with _told(env) as txn, _opened(env, wanted.database, _NAMES) as db, txn:
        removed = db.delete(wanted.key, txn, data=wanted.item)
        if not removed:
            raise _no_record(wanted.database, wanted.key, consequence="nothing was changed")
    return RecordAnswer(kind=RecordKind.WRITTEN, payload=encode_written(WriteReceipt(txn.inner.end_vlsn, removed)))


def _get(host: RecordHost, payload: bytes) -> RecordAnswer:
    wanted = decode_get(payload)
    if wanted.vlsn and not host.await_vlsn(wanted.vlsn, wanted.wait_ms / 1000):
        raise RefusedError(
            f"the node has not replayed VLSN {wanted.vlsn} yet",
            found=f"up to {host.status().last_vlsn} after {wanted.wait_ms} ms",
            hint="wait longer, or ask the master",
        )
    with _opened(host.environment, wanted.database, _NAMES) as db:
        items = _items(db, wanted.key)
    if not items:
        raise _no_record(wanted.database, wanted.key)
    if sum(map(len, items)) > _MOST_BYTES:
        raise RefusedError("the data items of this key are too many for one answer", expected=f"{_MOST_BYTES} bytes")
    return RecordAnswer(kind=RecordKind.RECORDS, payload=encode_records(items))


def _items(db: Database, key: bytes) -> list[bytes]:
    """All data items of a key."""
    if not db.duplicates:
        found = db.get(key)
        return [] if found is None else [found]
    # In byte order the next possible key is the key with a zero byte; under another order it is unknown.
    in_bytes = db.state.order.comparator is None
    records = db.items(start=key, end=key + b"\0") if in_bytes else db.items()
    return [item for found_key, item in records if found_key == key]


_SERVED: Final[dict[int, Callable[[RecordHost, bytes], RecordAnswer]]] = {
    RecordKind.PUT: _put,
    RecordKind.DELETE: _delete,
    RecordKind.GET: _get,
}


def _led(host: RecordHost) -> Environment:
    """The environment of the master."""
    if host.role is not Role.MASTER:
        raise NotMasterError(
            "this node is not the master",
            found=host.status().master or "it knows none",
            consequence="nothing was changed",
            hint="write to the master; jetool group show names it",
        )
    return host.environment


def _no_record(database: str, key: bytes, consequence: str | None = None) -> NotFoundError:
    return NotFoundError(
        f"no record with key 0x{key.hex()} in database {database!r}",
        consequence=consequence,
        hint="check the key: text, or 0x and hex; --key-format reads other forms",
    )


def _opened(env: Environment, name: str, hint: str) -> Database:
    """The database of a request; its client has no directory in which ``jetool dbs`` could list the names."""
    try:
        return env.open_database(name)
    except DatabaseNotFoundError as error:
        known = env.database_names()
        left = len(known) - _MOST_NAMES
        shown = ", ".join(known[:_MOST_NAMES]) + (f" and {left} more" if left > 0 else "")
        raise DatabaseNotFoundError(
            f"no database {name!r}", found=f"the node has {shown or 'no database'}", hint=hint
        ) from error


# Forms on the way. Decoders raise FormatError, and allocate no more than the received bytes.


def encode_put(request: PutRequest) -> bytes:
    """A request."""
    writer = ByteWriter().string(request.database).byte_array(request.key).byte_array(request.data)
    return writer.u8(request.overwrite * _OVERWRITE | request.create * _CREATE).getvalue()


def decode_put(payload: bytes) -> PutRequest:
    """A request."""
    reader = ByteReader(payload)
    database, key, data, flags = reader.string(), reader.byte_array(), reader.byte_array(), reader.u8()
    reader.finish()
    if flags & ~(_OVERWRITE | _CREATE):
        raise FormatError("a put has an unknown flag", found=f"0x{flags:02x}")
    return PutRequest(database, key, data, bool(flags & _OVERWRITE), bool(flags & _CREATE))


def encode_delete(request: DeleteRequest) -> bytes:
    """A request."""
    writer = ByteWriter().string(request.database).byte_array(request.key)
    return writer.u8(request.item is not None).byte_array(request.item or b"").getvalue()


def decode_delete(payload: bytes) -> DeleteRequest:
    """A request."""
    reader = ByteReader(payload)
    database, key, named, item = reader.string(), reader.byte_array(), reader.u8(), reader.byte_array()
    reader.finish()
    return DeleteRequest(database, key, item if named else None)


def encode_get(request: GetRequest) -> bytes:
    """A request."""
    writer = ByteWriter().string(request.database).byte_array(request.key)
    return writer.i64(request.vlsn).i32(request.wait_ms).getvalue()


def decode_get(payload: bytes) -> GetRequest:
    """A request."""
    reader = ByteReader(payload)
    request = GetRequest(reader.string(), reader.byte_array(), reader.i64(), reader.i32())
    reader.finish()
    return request


def encode_written(written: WriteReceipt) -> bytes:
    """The reply to a write."""
    return ByteWriter().i64(written.vlsn).i32(written.records).getvalue()


def decode_written(payload: bytes) -> WriteReceipt:
    """The reply to a write."""
    reader = ByteReader(payload)
    written = WriteReceipt(reader.i64(), reader.i32())
    reader.finish()
    return written


def encode_records(items: list[bytes]) -> bytes:
    """The reply to a question."""
    writer = ByteWriter().packed(len(items))
    for item in items:
        writer.byte_array(item)
    return writer.getvalue()


def decode_records(payload: bytes) -> list[bytes]:
    """The reply to a question."""
    reader = ByteReader(payload)
    items = [reader.byte_array() for _ in range(reader.count(_LEAST_ITEM_BYTES))]
    reader.finish()
    return items


def encode_refusal(refusal: Refusal) -> bytes:
    """Why not."""
    writer = ByteWriter().u8(refusal.exit_code)
    for text in refusal[1:]:
        writer.byte_array(_encode_text(str(text)))
    return writer.getvalue()


def decode_refusal(payload: bytes) -> Refusal:
    """The reason for a refusal; its texts are made safe for a terminal."""
    reader = ByteReader(payload)
    code = reader.u8()
    texts = [_decode_text(reader.byte_array()) for _ in range(6)]
    reader.finish()
    return Refusal(
        exit_code=code,
        kind=texts[0],
        what=texts[1],
        expected=texts[2],
        found=texts[3],
        consequence=texts[4],
        hint=texts[5],
    )


def _encode_text(text: str) -> bytes:
    return text[:_TEXT_BYTES].encode("utf-8", "surrogateescape")


def _decode_text(payload: bytes) -> str:
    text = payload[:_TEXT_BYTES].decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "?" for c in text)
