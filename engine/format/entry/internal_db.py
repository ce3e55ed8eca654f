"""Values of JE's internal databases (je-log-format.md 10.2 to 10.6, 11.2). For those of the group database see
``group_db``.

``_jeVlsnMapDb``, key ``t_long``: -1 is the range, any other key the first VLSN of a bucket.

==============  ===================================================  ======================================
range           bucket                                               ghost bucket
==============  ===================================================  ======================================
pint version 1  pint version 1                                       pint version 1
plong first     t_bool 0                                             t_bool 1
plong last      plong fileNumber, pint stride                        plong VLSN
plong lastSync  plong firstVLSN, plong lastVLSN, lsn of lastVLSN     lsn firstPossible
plong lastTxn   pint n, n × t_uint offsets (0: unknown)              lsn lastPossible
==============  ===================================================  ======================================

``_jeReservedFilesDb``, key ``t_long`` file: t_byte flags, plong first and last VLSN, pint n, n × plong database ids.
``_jeExpiration``, key sorted packed file: nothing, or u8 hours, then pairs of pint difference and pint bytes.
``_jeExtinctScansDb``, key sorted packed id: pint task; 0: a range of records, 1: a database.
``_jeMetadata``, key name: "eraser" holds two times, work, and two sets of files.
A sequence is a user record: u8 version, u8 flags, plong least, greatest and stored value.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.format import tuples
from engine.format.bytecursor import ByteReader, ByteWriter

RANGE_KEY: Final = -1
_VLSN_VERSION: Final = 1
_OFFSET_BYTES: Final = 4
_RECORD_EXTINCTION: Final = 0
_DATABASE_EXTINCTION: Final = 1


class VLSNRangeRecord(NamedTuple):
    """The range of a VLSN index; all four fields are -1 when it is empty."""

    first: int
    last: int
    last_sync: int
    last_txn_end: int


class VLSNBucketRecord(NamedTuple):
    """Mappings in one log file: VLSN first + i × stride is at offsets[i], and last_vlsn is at last_lsn."""

    file_number: int
    stride: int
    first_vlsn: int
    last_vlsn: int
    last_lsn: int
    offsets: tuple[int, ...]


class GhostBucketRecord(NamedTuple):
    """The first VLSN of a range without mappings, and the LSNs between which its entry lies."""

    vlsn: int
    first_possible_lsn: int
    last_possible_lsn: int


class ReservedFile(NamedTuple):
    """A log file that the cleaner has finished; the VLSNs are -1 if the file holds no VLSN."""

    flags: int
    first_vlsn: int
    last_vlsn: int
    db_ids: tuple[int, ...]


class ExpirationRecord(NamedTuple):
    """When the bytes of a log file expire.

    Attributes:
        in_hours: expirations are hours, not days, since 1970.
        histogram: (expiration, bytes that expire then), ascending; empty when nothing expires.
    """

    in_hours: bool
    histogram: tuple[tuple[int, int], ...]


class RecordExtinction(NamedTuple):
    """A scan that discards a key range of some databases. Keys and filter are None if the task does not have them."""

    version: int
    count_complete: bool
    db_ids: tuple[int, ...]
    begin_key: bytes | None
    end_key: bytes | None
    filter: bytes | None
    label: str | None
    flushed_db_id: int
    flushed_key: bytes | None


class DatabaseExtinction(NamedTuple):
    """A scan that discards a removed database."""

    version: int
    db_id: int


class EraserState(NamedTuple):
    """Progress of the eraser; times in milliseconds since 1970."""

    start_time: int
    end_time: int
    total_cycle_work: int
    files_completed: tuple[int, ...]
    files_remaining: tuple[int, ...]


class SequenceData(NamedTuple):
    """A JE sequence."""

    version: int
    flags: int
    range_min: int
    range_max: int
    stored_value: int


def decode_vlsn_range(data: bytes) -> VLSNRangeRecord:
    """Decode the range record of the VLSN index."""
    reader = ByteReader(data)
    _expect_version(reader)
    record = VLSNRangeRecord(reader.packed(), reader.packed(), reader.packed(), reader.packed())
    reader.finish()
    return record


def encode_vlsn_range(record: VLSNRangeRecord) -> bytes:
    """Encode the range record of the VLSN index."""
    return ByteWriter().packed(_VLSN_VERSION, *record).getvalue()


def decode_vlsn_bucket(data: bytes) -> VLSNBucketRecord | GhostBucketRecord:
    """Decode a bucket record of the VLSN index.

    Raises:
        FormatError: the record is malformed, or its stride is not positive.
    """
    reader = ByteReader(data)
    _expect_version(reader)
    if tuples.read_bool(reader):
        ghost = GhostBucketRecord(reader.packed(), reader.packed(), reader.packed())
        reader.finish()
        return ghost
    file_number, stride, first, last, last_lsn = (reader.packed() for _ in range(5))
    if stride < 1:
        raise FormatError("stride of a VLSN bucket", expected="1 or more", found=str(stride))
    count = reader.count(_OFFSET_BYTES)
    # Big-endian as in tuples, unlike the packed numbers before them.
    offsets = struct.unpack(f">{count}I", reader.raw(_OFFSET_BYTES * count))
    reader.finish()
    return VLSNBucketRecord(file_number, stride, first, last, last_lsn, offsets)


def encode_vlsn_bucket(record: VLSNBucketRecord | GhostBucketRecord) -> bytes:
    """Encode a bucket record of the VLSN index."""
    writer = ByteWriter().packed(_VLSN_VERSION)
    if isinstance(record, GhostBucketRecord):
        return tuples.write_bool(writer, True).packed(*record).getvalue()
    tuples.write_bool(writer, False).packed(*record[:5], len(record.offsets))
    return writer.raw(struct.pack(f">{len(record.offsets)}I", *record.offsets)).getvalue()


def decode_reserved_file(data: bytes) -> ReservedFile:
    """Decode a reserved file."""
    reader = ByteReader(data)
    flags, first, last = tuples.read_byte(reader), reader.packed(), reader.packed()
    record = ReservedFile(flags, first, last, tuple(reader.packed() for _ in range(reader.count())))
    reader.finish()
    return record


def reserved_file_of(key: bytes, data: bytes) -> tuple[int, ReservedFile]:
    """The file number and the value in a record of ``_jeReservedFilesDb``, read as JE reads it when it opens.

    JE ignores bytes after the number and after the value, and treats a negative count of databases as 0.

    Raises:
        FormatError: the key or the value is too short. JE does not open such an environment.
    """
    number = tuples.parse_long_key(key if len(key) < tuples.LONG_KEY_BYTES else key[: tuples.LONG_KEY_BYTES])
    reader = ByteReader(data)
    flags, first, last, count = tuples.read_byte(reader), reader.packed(), reader.packed(), reader.packed()
    if count > reader.remaining():
        raise FormatError("impossible count", expected=f"0..{reader.remaining()}", found=str(count))
    return number, ReservedFile(flags, first, last, tuple(reader.packed() for _ in range(count)))


def encode_reserved_file(record: ReservedFile) -> bytes:
    """Encode a reserved file."""
    writer = tuples.write_byte(ByteWriter(), record.flags).packed(record.first_vlsn, record.last_vlsn)
    return writer.packed(len(record.db_ids), *record.db_ids).getvalue()


def decode_expiration_profile(data: bytes) -> ExpirationRecord:
    """Decode the expiration profile of a file."""
    if not data:
        return ExpirationRecord(False, ())
    reader = ByteReader(data)
    in_hours = tuples.read_bool(reader)
    histogram = []
    expiration = 0
    while reader.remaining():
        expiration += reader.packed()
        histogram.append((expiration, reader.packed()))
    if not histogram:
        raise FormatError("expiration profile without an interval", expected="a pair of numbers", found="nothing")
    return ExpirationRecord(in_hours, tuple(histogram))


def encode_expiration_profile(record: ExpirationRecord) -> bytes:
    """Encode the expiration profile of a file."""
    if not record.histogram:
        return b""
    writer = tuples.write_bool(ByteWriter(), record.in_hours)
    last = 0
    for expiration, size_bytes in record.histogram:
        writer.packed(expiration - last, size_bytes)
        last = expiration
    return writer.getvalue()


def decode_extinct_scan(data: bytes) -> RecordExtinction | DatabaseExtinction:
    """Decode an extinction task.

    Raises:
        FormatError: the record is malformed, or the type of the task is unknown.
    """
    reader = ByteReader(data)
    task, version = reader.packed(), reader.packed()
    if task == _DATABASE_EXTINCTION:
        found: RecordExtinction | DatabaseExtinction = DatabaseExtinction(version, reader.packed())
    elif task == _RECORD_EXTINCTION:
        complete, db_ids = tuples.read_bool(reader), _read_ascending(reader)
        keys = (_read_optional(reader), _read_optional(reader), _read_optional(reader))
        label = tuples.read_string(reader)
        found = RecordExtinction(version, complete, db_ids, *keys, label, reader.packed(), _read_optional(reader))
    else:
        raise FormatError("extinction task", expected="0 or 1", found=str(task))
    reader.finish()
    return found


def encode_extinct_scan(record: RecordExtinction | DatabaseExtinction) -> bytes:
    """Encode an extinction task."""
    if isinstance(record, DatabaseExtinction):
        return ByteWriter().packed(_DATABASE_EXTINCTION, *record).getvalue()
    writer = tuples.write_bool(ByteWriter().packed(_RECORD_EXTINCTION, record.version), record.count_complete)
    _write_ascending(writer, record.db_ids)
    for part in (record.begin_key, record.end_key, record.filter):
        writer.byte_array(part or b"")
    return (
        tuples.write_string(writer, record.label)
        .packed(record.flushed_db_id)
        .byte_array(record.flushed_key or b"")
        .getvalue()
    )


def decode_eraser_state(data: bytes) -> EraserState:
    """Decode the eraser's progress."""
    reader = ByteReader(data)
    start, end, work = tuples.read_long(reader), tuples.read_long(reader), reader.packed()
    record = EraserState(start, end, work, _read_ascending(reader), _read_ascending(reader))
    reader.finish()
    return record


def encode_eraser_state(record: EraserState) -> bytes:
    """Encode the eraser's progress."""
    writer = tuples.write_long(tuples.write_long(ByteWriter(), record.start_time), record.end_time)
    writer.packed(record.total_cycle_work)
    _write_ascending(writer, record.files_completed)
    _write_ascending(writer, record.files_remaining)
    return writer.getvalue()


def decode_sequence(data: bytes) -> SequenceData:
    """Decode a sequence."""
    reader = ByteReader(data)
    record = SequenceData(reader.u8(), reader.u8(), reader.packed(), reader.packed(), reader.packed())
    reader.finish()
    return record


def encode_sequence(record: SequenceData) -> bytes:
    """Encode a sequence."""
    return ByteWriter().u8(record.version).u8(record.flags).packed(*record[2:]).getvalue()


def _expect_version(reader: ByteReader) -> None:
    version = reader.packed()
    if version != _VLSN_VERSION:
        raise FormatError("version of a VLSN index record", expected=str(_VLSN_VERSION), found=str(version))


def _read_optional(reader: ByteReader) -> bytes | None:
    # Null and empty are stored in the same way.
    return reader.byte_array() or None


def _read_ascending(reader: ByteReader) -> tuple[int, ...]:
    numbers = []
    number = 0
    for _ in range(reader.count()):
        # A set is stored as differences.
        number += reader.packed()
        numbers.append(number)
    return tuple(numbers)


def _write_ascending(writer: ByteWriter, numbers: tuple[int, ...]) -> None:
    writer.packed(len(numbers))
    last = 0
    for number in numbers:
        writer.packed(number - last)
        last = number
