"""Commit (17), Abort (18) and Prepare (27), je-log-format.md 6.6 and 6.7.

Commit and Abort: lastLsn, id, time, masterId, dtvlsn, masterTerm. Until v11 lastLsn comes after time; dtvlsn exists
since v13, masterTerm since v22. ``lastLsn`` is the transaction's last LN; following ``last_lsn`` from there visits all
of its LNs.

Prepare (XA): id, time, and the XID: formatId (i32, not packed), gtrid and bqual, each with an i8 length, -1 for null.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.errors import FormatError, plural
from engine.format.bytecursor import ByteReader, ByteWriter, pack, unpack
from engine.format.fields import Shape, shape
from engine.format.versions import DTVLSN, LN_FLAGS_FIRST, MASTER_TERM

# Terms of masters: the earliest possible one, which is 2021-06-03, and the latest one, which only a running master
# claims, in elections. Versions before v22 have no terms; where their entries are logged again, JE writes ``PRE_TERM``.
FIRST_TERM: Final = 1_622_678_400_000
LAST_TERM: Final = FIRST_TERM + 36_500 * 86_400_000
PRE_TERM: Final = FIRST_TERM - 1


class TxnEnd(NamedTuple):
    """A Commit or an Abort; ``dtvlsn`` and ``master_term`` are 0 in versions without them."""

    last_lsn: int
    id: int
    time: int
    master_id: int
    dtvlsn: int
    master_term: int


class Prepare(NamedTuple):
    """A transaction prepared in two-phase commit, with its XID."""

    id: int
    time: int
    format_id: int
    gtrid: bytes | None
    bqual: bytes | None


TXN_END: Final[Shape] = shape(
    TxnEnd, "last_lsn:lsn id=txn:int time:time master_id=master:int dtvlsn:vlsn master_term:int"
)
PREPARE: Final[Shape] = shape(Prepare, "id=txn:int time:time format_id:int gtrid:bytes bqual:bytes")


def decode_txn_end(body: bytes, version: int) -> TxnEnd:
    """Decode a Commit or Abort body, any version."""
    # Every transaction has such an entry, so the fields are read without a ByteReader, for speed.
    if version >= LN_FLAGS_FIRST:
        last_lsn, pos = unpack(body, 0)
        txn_id, pos = unpack(body, pos)
        time, pos = unpack(body, pos)
    else:
        txn_id, pos = unpack(body, 0)
        time, pos = unpack(body, pos)
        last_lsn, pos = unpack(body, pos)
    master, pos = unpack(body, pos)
    dtvlsn = term = 0
    if version >= DTVLSN:
        dtvlsn, pos = unpack(body, pos)
    if version >= MASTER_TERM:
        term, pos = unpack(body, pos)
    if pos != len(body):
        raise FormatError("bytes are left over after the entry", expected="0", found=plural(len(body) - pos, "byte"))
    return TxnEnd(last_lsn, txn_id, time, master, dtvlsn, term)


def encode_txn_end(record: TxnEnd, version: int) -> bytes:
    """Encode a Commit or Abort body."""
    last_lsn, txn_id, time, master, dtvlsn, term = record
    # The version of new environments is in this range: encoded without a ByteWriter, for speed.
    if DTVLSN <= version < MASTER_TERM:
        return pack(last_lsn) + pack(txn_id) + pack(time) + pack(master) + pack(dtvlsn)
    order = (last_lsn, txn_id, time) if version >= LN_FLAGS_FIRST else (txn_id, time, last_lsn)
    writer = ByteWriter().packed(*order, master)
    if version >= DTVLSN:
        writer.packed(dtvlsn)
    if version >= MASTER_TERM:
        writer.packed(term)
    return writer.getvalue()


def decode_prepare(body: bytes, version: int) -> Prepare:
    """Decode a Prepare body, any version."""
    reader = ByteReader(body)
    record = Prepare(reader.packed(), reader.packed(), reader.i32(), read_xid_part(reader), read_xid_part(reader))
    reader.finish()
    return record


def encode_prepare(record: Prepare, version: int) -> bytes:
    """Encode a Prepare body."""
    writer = ByteWriter().packed(record.id, record.time).i32(record.format_id)
    for part in (record.gtrid, record.bqual):
        writer.i8(-1 if part is None else len(part)).raw(part or b"")
    return writer.getvalue()


def read_xid_part(reader: ByteReader) -> bytes | None:
    """Read a part of an XID: a length in one byte, -1 for null, and the bytes."""
    length = reader.i8()
    return None if length == -1 else reader.raw(length)
