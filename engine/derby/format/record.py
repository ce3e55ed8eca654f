"""The body of a log record.

=================  ==========================================================================
field              encoding
=================  ==========================================================================
format id          short, 129
group              cint of flag bits, always in the 2-byte form
transaction        object 147, or null in checksum records
operation          object, see ``operations.registry``
ordinary record    int n, n bytes of optional data (rows, see ``row``)
CLR                long, the undo instant: the record that it compensates
checksum record    nothing more
=================  ==========================================================================

A CLR carries no data of its own: to redo it, the record at its undo instant is read and undone with that record's data
(R-DRB-36). No record points to the previous one of its transaction.

Example, the begin of transaction 194 at (1,40674) of the fixture ``crash-five-transactions``::

    00 00 00 14                length 20
    00 00 00 01 00 00 9E E2    instant (1,40674)
    00 81                      log record
    41 01                      group 0x101 = raw store | first
    00 93 00 C2                transaction 194
    00 A9                      begin
    00 00 00 00  00 00         status 0, no global id
    00 00 00 00                no optional data
    00 00 00 14                length again
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, NamedTuple

from engine.derby.format import codec
from engine.derby.format.codec import FieldCursor
from engine.derby.format.log_file import OVERHEAD, wrap
from engine.derby.format.operations import transaction
from engine.derby.format.operations.registry import Operation, read_operation, write_operation
from engine.errors import FormatError, plural

FORMAT_ID: Final = 129
_new_tuple: Final = tuple.__new__
_FRONT: Final = struct.Struct(">HH")

FIRST: Final = 0x001
LAST: Final = 0x002
COMPENSATION: Final = 0x004
BEFORE_IMAGE: Final = 0x008
COMMIT: Final = 0x010
ABORT: Final = 0x020
PREPARED: Final = 0x040
NEED_LOCK: Final = 0x080
RAW_STORE: Final = 0x100
FILE_RESOURCE: Final = 0x400
CHECKSUM: Final = 0x800

GROUP_NAMES: Final = {
    FIRST: "first",
    LAST: "last",
    COMPENSATION: "compensation",
    BEFORE_IMAGE: "before-image",
    COMMIT: "commit",
    ABORT: "abort",
    PREPARED: "prepared",
    NEED_LOCK: "need-lock",
    RAW_STORE: "raw-store",
    FILE_RESOURCE: "file-resource",
    CHECKSUM: "checksum",
}

# Size of envelope and body of a checksum record, which the first record of a log buffer reserves before itself.
CHECKSUM_BODY_SIZE: Final = 21
CHECKSUM_RECORD_SIZE: Final = CHECKSUM_BODY_SIZE + OVERHEAD
assert CHECKSUM_RECORD_SIZE == 37


class Record(NamedTuple):
    """One log record.

    Attributes:
        instant: position of the record in the log.
        length: bytes of the body; the record takes 16 more.
        group: flag bits.
        transaction: number of the transaction, None in checksum records.
        operation: what was done.
        data: optional data of an ordinary record.
        undo_instant: the compensated record, in a CLR only (else None).
    """

    instant: int
    length: int
    group: int
    transaction: int | None
    operation: Operation
    data: bytes
    undo_instant: int | None

    @property
    def end(self) -> int:
        """Instant just after the record."""
        return self.instant + self.length + OVERHEAD


def decode_body(instant: int, body: bytes) -> Record:
    """The record whose body is ``body``; FormatError if bytes are left over or missing."""
    if len(body) < _FRONT.size:
        raise FormatError("a log record is too short", found=plural(len(body), "byte"))
    format_id, group = _FRONT.unpack_from(body)
    if format_id != FORMAT_ID:
        raise FormatError("not a log record", expected=f"format id {FORMAT_ID}", found=str(format_id))
    # A cint of two bytes, whatever its value: Derby writes the group in this form only.
    if group >> 14 != 1:
        raise FormatError("the group of a log record is not a two-byte number", found=f"{group:04x}")
    group &= 0x3FFF
    cursor = FieldCursor(body, _FRONT.size)
    number = transaction.read_transaction_id(cursor)
    operation = read_operation(cursor)
    data, undo_instant = b"", None
    if group & CHECKSUM == 0:
        if group & COMPENSATION:
            undo_instant = cursor.fixed_long()
        else:
            data = cursor.byte_array()
    if cursor.remaining():
        raise FormatError("bytes are left over after a log record", found=plural(cursor.remaining(), "byte"))
    # Faster than Record(...): a NamedTuple's constructor is a Python function.
    return _new_tuple(Record, (instant, len(body), group, number, operation, data, undo_instant))


def encode_body(
    group: int, number: int | None, operation: Operation, data: bytes = b"", undo_instant: int | None = None
) -> bytes:
    """The body of a record; the inverse of ``decode_body``."""
    out = bytearray()
    codec.put_short(out, FORMAT_ID)
    codec.put_short(out, 0x4000 | group)
    transaction.write_transaction_id(out, number)
    write_operation(out, operation)
    if group & CHECKSUM == 0:
        if group & COMPENSATION:
            codec.put_long(out, undo_instant or 0)
        else:
            codec.put_byte_array(out, data)
    return bytes(out)


def encode(record: Record) -> bytes:
    """The record with its envelope, as it stands in the log file."""
    return wrap(
        record.instant,
        encode_body(record.group, record.transaction, record.operation, record.data, record.undo_instant),
    )


def encode_checksum(instant: int, covered: bytes) -> bytes:
    """The checksum record, with its envelope, that guards the bytes ``covered`` after it."""
    operation = transaction.Checksum(transaction.CRC32, len(covered), zlib.crc32(covered))
    return wrap(instant, encode_body(RAW_STORE | CHECKSUM, None, operation))
