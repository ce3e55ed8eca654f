"""Transport form of entries of the replication stream (je-ha-protocol.md section 6).

======  =====  ==========================================
offset  type   field
======  =====  ==========================================
0       u8     type of the entry
1       i32    log version in which the body is written
5       i32    length of the body
9       i64    VLSN
17             the body
======  =====  ==========================================

A feeder sends a body in its log form, or rewritten for replication, without the fields that matter only in its own
files: the last LSN of the transaction, abort information, sizes. The header has the version of the body in either case,
even if that is above the agreed version. So the bodies of a VLSN from two nodes are never compared; ``same_entry``
compares their meaning, without the time of a Commit, since each node writes its own.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.format.bytecursor import ByteReader, ByteWriter
from engine.format.codecs import Record, decode_body, encode_body
from engine.format.entry.ln import HAS_EXPIRATION, LN
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import BY_NUMBER, EntryType, plain_type, type_name
from engine.format.lsn import NULL_LSN
from engine.format.versions import LN_FLAGS_FIRST, LN_KEY_FIRST, NEWEST_VERSION, PACKED_NUMBERS
from engine.format.vlsn import NULL_VLSN

# Memory limit for one entry; JE's own limit is half of its heap.
LONGEST_ENTRY: Final = 128 << 20


class WireEntry(NamedTuple):
    """One entry with its VLSN.

    Attributes:
        log_version: version of the body.
    """

    vlsn: int
    type_number: int
    log_version: int
    body: bytes

    def record(self) -> Record:
        """What the body says.

        Raises:
            FormatError: the body does not fit its type and version.
        """
        return decode_body(self.type_number, self.log_version, self.body)


def first_streamed(kind: EntryType) -> int:
    """The first log version in which entries of a type are sent.

    JE 25.3 sends an operation with a before-image under its own type to replicas of every version, and leaves out the
    expiration of the before-image below version 25. Before version 6 there was no replication.
    """
    since = kind.since if plain_type(kind.number) == kind.number else PACKED_NUMBERS
    return max(since, PACKED_NUMBERS)


def read_entry(reader: ByteReader) -> WireEntry:
    """Decode an entry, the last field of its message.

    Raises:
        FormatError: the type or version cannot occur in the stream, or the length is wrong.
    """
    type_number, log_version, length = reader.u8(), reader.i32(), reader.i32()
    known = BY_NUMBER.get(type_number)
    if known is None or not known.replicable:
        raise FormatError("entry of the stream", expected="a type that is replicated", found=type_name(type_number))
    since = first_streamed(known)
    if not since <= log_version <= NEWEST_VERSION:
        expected = f"{since}..{NEWEST_VERSION}"
        raise FormatError(f"log version of a {known.name}", expected=expected, found=str(log_version))
    vlsn = reader.i64()
    if vlsn < 1:
        raise FormatError("VLSN of an entry", expected="1 or more", found=str(vlsn))
    return WireEntry(vlsn, type_number, log_version, reader.raw(length))


def write_entry(writer: ByteWriter, entry: WireEntry) -> ByteWriter:
    """Write an entry."""
    writer.u8(entry.type_number).i32(entry.log_version).i32(len(entry.body))
    return writer.i64(entry.vlsn).raw(entry.body)


def for_replication(entry: WireEntry) -> WireEntry:
    """Rewrite an entry like a feeder: without the fields that matter only in the files of one node.

    Raises:
        FormatError: the body is malformed, or has a version without a known form for replication: below 12 bodies are
            sent unchanged, and for 19 and later the recordings show no other form.
    """
    if not LN_FLAGS_FIRST <= entry.log_version < LN_KEY_FIRST:
        raise FormatError("form for replication", expected="log version 12..18", found=str(entry.log_version))
    record = entry.record()
    if isinstance(record, LN):
        # Fields excluded by the flags are not written, whatever their values.
        record = record._replace(flags=record.flags & HAS_EXPIRATION, flags2=0, last_lsn=NULL_LSN)
    elif isinstance(record, TxnEnd):
        record = record._replace(last_lsn=NULL_LSN)
    return entry._replace(body=encode_body(entry.type_number, entry.log_version, record))


def same_entry(one: WireEntry, other: WireEntry) -> bool:
    """Whether two nodes have the same entry at a VLSN, in any form and version.

    Raises:
        FormatError: a body is malformed.
    """
    return one[:2] == other[:2] and meaning(one.record()) == meaning(other.record())


def meaning(record: Record) -> Record | tuple[object, ...]:
    """The fields of a record that are compared between two nodes."""
    if isinstance(record, TxnEnd):
        return record.id, record.master_id
    if isinstance(record, LN):
        expiration = record.expiration if record.flags & HAS_EXPIRATION else 0
        return record.db_id, record.txn_id, record.key, record.data, expiration, record.content, record.tail
    return record


def dtvlsn_of(record: Record) -> int:
    """The VLSN known to be on a majority when a Commit or Abort was logged; NULL_VLSN if the entry holds no VLSN."""
    return record.dtvlsn if isinstance(record, TxnEnd) and record.dtvlsn > 0 else NULL_VLSN
