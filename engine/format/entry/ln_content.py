"""What the LNs of internal trees hold behind the LN base, and what stands at the end of some LN entries.

* MapLN: a DatabaseImpl, then u8 deleted (je-log-format.md 7.4, 9.1).
* NameLN: database id, u8 deleted; at the end of the entry an operation and, after create and update, the configuration
of
  a replicated database, after truncate the id of the database that was replaced (7.5).
* FileSummaryLN: [since v19 the LSN of the last entry before it]; unless deleted eleven (v6, v7: ten) i32 counters and
  the obsolete offsets, packed as 15-bit groups of the differences (10.1).
* DupCountLN: a count (v6, v7).
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.format.bytecursor import ByteReader, ByteWriter
from engine.format.entry.db_tree import DatabaseImpl, read_database, write_database
from engine.format.fields import Shape, shape
from engine.format.lsn import NULL_LSN
from engine.format.versions import LN_KEY_FIRST, TWO_PART_DUPLICATES

_COUNTERS: Final = Struct("<11i")
_COUNTERS_V7: Final = Struct("<10i")
_MAX_LN_SIZE_AT: Final = 6

# NameLN operations.
OPERATIONS: Final = ("none", "create", "remove", "truncate", "rename", "update_config")
_CREATE, _TRUNCATE, _UPDATE_CONFIG = 1, 3, 5


class MapLN(NamedTuple):
    """The state of a database, as the mapping tree holds it."""

    database: DatabaseImpl
    deleted: int


class NameLN(NamedTuple):
    """The id that belongs to a database name."""

    db_id: int
    deleted: int


class DatabaseConfig(NamedTuple):
    """The configuration of a database as it travels in the replication stream."""

    flags: int
    max_entries: int
    max_dup_entries: int
    btree_comparator: bytes | None
    duplicate_comparator: bytes | None
    triggers: tuple[bytes, ...]


class NameOperation(NamedTuple):
    """What was done to a name: create, remove, truncate, rename or an update of the configuration."""

    operation: int
    config: DatabaseConfig | None
    truncated_db_id: int | None


class FileSummary(NamedTuple):
    """The utilization counters of one log file (R-CLN-1); sizes in bytes, headers included."""

    total_count: int
    total_size: int
    total_in_count: int
    total_in_size: int
    total_ln_count: int
    total_ln_size: int
    max_ln_size: int
    obsolete_in_count: int
    obsolete_ln_count: int
    obsolete_ln_size: int
    obsolete_ln_size_counted: int


class FileSummaryLN(NamedTuple):
    """A FileSummary with the obsolete offsets since the one before; ``summary`` is None in a deletion."""

    anchor_lsn: int
    summary: FileSummary | None
    offsets: tuple[int, ...]


class DupCountLN(NamedTuple):
    """Number of duplicates of a key (v6, v7)."""

    dup_count: int


MAP_LN: Final[Shape] = shape(MapLN, "database:record deleted:bool")
NAME_LN: Final[Shape] = shape(NameLN, "db_id=named_db:int deleted:bool")
DATABASE_CONFIG: Final[Shape] = shape(
    DatabaseConfig,
    "flags:hex max_entries:int max_dup_entries:int btree_comparator:bytes duplicate_comparator:bytes triggers:byteses",
)
NAME_OPERATION: Final[Shape] = shape(NameOperation, "operation:int config:record truncated_db_id:int")
FILE_SUMMARY: Final[Shape] = shape(FileSummary, " ".join(f"{name}:int" for name in FileSummary._fields))
FILE_SUMMARY_LN: Final[Shape] = shape(FileSummaryLN, "anchor_lsn:lsn summary:record offsets=obsolete_offsets:offsets")
DUP_COUNT_LN: Final[Shape] = shape(DupCountLN, "dup_count:int")


def read_map_ln(reader: ByteReader, version: int, deleted: bool) -> MapLN:
    """Read the content of a MapLN."""
    return MapLN(read_database(reader, version), reader.u8())


def write_map_ln(writer: ByteWriter, content: MapLN, version: int) -> None:
    """Write the content of a MapLN."""
    write_database(writer, content.database, version)
    writer.u8(content.deleted)


def read_name_ln(reader: ByteReader, version: int, deleted: bool) -> NameLN:
    """Read the content of a NameLN."""
    return NameLN(reader.packed(), reader.u8())


def write_name_ln(writer: ByteWriter, content: NameLN, version: int) -> None:
    """Write the content of a NameLN."""
    writer.packed(content.db_id).u8(content.deleted)


def read_file_summary_ln(reader: ByteReader, version: int, deleted: bool) -> FileSummaryLN:
    """Read the content of a FileSummaryLN."""
    anchor = reader.packed() if version >= LN_KEY_FIRST else NULL_LSN
    if deleted:
        return FileSummaryLN(anchor, None, ())
    if version >= TWO_PART_DUPLICATES:
        counters = _COUNTERS.unpack(reader.raw(_COUNTERS.size))
    else:
        values = _COUNTERS_V7.unpack(reader.raw(_COUNTERS_V7.size))
        counters = (*values[:_MAX_LN_SIZE_AT], 0, *values[_MAX_LN_SIZE_AT:])
    return FileSummaryLN(anchor, FileSummary._make(counters), _read_offsets(reader))


def write_file_summary_ln(writer: ByteWriter, content: FileSummaryLN, version: int) -> None:
    """Write the content of a FileSummaryLN."""
    if version >= LN_KEY_FIRST:
        writer.packed(content.anchor_lsn)
    if content.summary is None:
        return
    if version >= TWO_PART_DUPLICATES:
        writer.raw(_COUNTERS.pack(*content.summary))
    else:
        values = (*content.summary[:_MAX_LN_SIZE_AT], *content.summary[_MAX_LN_SIZE_AT + 1 :])
        writer.raw(_COUNTERS_V7.pack(*values))
    _write_offsets(writer, content.offsets)


def read_dup_count_ln(reader: ByteReader, version: int, deleted: bool) -> DupCountLN:
    """Read the content of a DupCountLN."""
    return DupCountLN(reader.packed())


def write_dup_count_ln(writer: ByteWriter, content: DupCountLN, version: int) -> None:
    """Write the content of a DupCountLN."""
    writer.packed(content.dup_count)


def read_name_operation(reader: ByteReader, version: int) -> NameOperation:
    """Read what stands behind the key of a NameLN."""
    operation = reader.u8()
    if operation >= len(OPERATIONS):
        raise FormatError("NameLN operation", expected=f"0..{len(OPERATIONS) - 1}", found=str(operation))
    config = _read_config(reader, version) if operation in (_CREATE, _UPDATE_CONFIG) else None
    return NameOperation(operation, config, reader.packed() if operation == _TRUNCATE else None)


def write_name_operation(writer: ByteWriter, tail: NameOperation, version: int) -> None:
    """Write what stands behind the key of a NameLN."""
    writer.u8(tail.operation)
    config = tail.config
    if config is not None:
        writer.u8(config.flags).packed(config.max_entries)
        if version < TWO_PART_DUPLICATES:
            writer.packed(config.max_dup_entries)
        writer.nullable_bytes(config.btree_comparator).nullable_bytes(config.duplicate_comparator)
        if version >= TWO_PART_DUPLICATES:
            writer.packed(len(config.triggers))
            for trigger in config.triggers:
                writer.byte_array(trigger)
    if tail.truncated_db_id is not None:
        writer.packed(tail.truncated_db_id)


def _read_config(reader: ByteReader, version: int) -> DatabaseConfig:
    flags, max_entries = reader.u8(), reader.packed()
    max_dup_entries = reader.packed() if version < TWO_PART_DUPLICATES else 0
    comparators = (reader.nullable_bytes(), reader.nullable_bytes())
    triggers = tuple(reader.byte_array() for _ in range(reader.count())) if version >= TWO_PART_DUPLICATES else ()
    return DatabaseConfig(flags, max_entries, max_dup_entries, *comparators, triggers)


def _read_offsets(reader: ByteReader) -> tuple[int, ...]:
    """Offsets from differences: 15-bit groups, least significant first, -1 - g when more groups follow."""
    count = reader.packed()
    shorts = [reader.i16() for _ in range(reader.count(2))]
    offsets = []
    offset = difference = shift = 0
    for value in shorts:
        difference |= (-1 - value if value < 0 else value) << shift
        shift += 15
        if value >= 0:
            offset += difference
            offsets.append(offset)
            difference = shift = 0
        elif shift > 60:
            raise FormatError("obsolete offset", expected="at most four groups", found="more")
    if len(offsets) != count or shift:
        raise FormatError("obsolete offsets", expected=str(count), found=str(len(offsets)))
    return tuple(offsets)


def _write_offsets(writer: ByteWriter, offsets: tuple[int, ...]) -> None:
    shorts = []
    last = 0
    for offset in offsets:
        difference = offset - last
        last = offset
        while difference > 0x7FFF:
            shorts.append(-1 - (difference & 0x7FFF))
            difference >>= 15
        shorts.append(difference)
    writer.packed(len(offsets), len(shorts))
    for value in shorts:
        writer.i16(value)
