"""The content of LNs of internal trees, after the LN base, and the fields at the end of some LN entries.

* MapLN: a DatabaseImpl, then u8 deleted (je-log-format.md 7.4, 9.1).
* NameLN: database id, u8 deleted. At the end of the entry comes an operation. After create and update the configuration
  of a replicated database follows; after truncate the id of the database that was replaced (7.5).
* FileSummaryLN: [since v19 the LSN of the previous entry]; unless deleted, eleven (v6, v7: ten) i32 counters and the
  obsolete offsets, packed as 15-bit groups of the differences (10.1).
* DupCountLN: a count (v6, v7).
"""

from __future__ import annotations

import math
import re
from itertools import accumulate, islice, pairwise
from struct import Struct, pack, unpack
from typing import Final, NamedTuple

from engine import native
from engine.errors import FormatError
from engine.format.bytecursor import ByteReader, ByteWriter
from engine.format.entry.db_tree import DatabaseImpl, read_database, write_database
from engine.format.fields import Shape, shape
from engine.format.header import HEADER_BYTES
from engine.format.lsn import NULL_LSN
from engine.format.versions import LN_KEY_FIRST, TWO_PART_DUPLICATES

_COUNTERS: Final = Struct("<11i")
_COUNTERS_V7: Final = Struct("<10i")
_SINGLE: Final = Struct("<f")
_MAX_LN_SIZE_AT: Final = 6
# Bits of an offset's difference in one group.
_GROUP: Final = 0x7FFF
# The high byte of a group that is followed by another group.
_MORE_FOLLOWS: Final = re.compile(rb"[\x80-\xff]")
# The least size of an LN entry since v16: header, two bytes of flags, database id and a data length.
_LEAST_LN_BYTES: Final = HEADER_BYTES + 4

# NameLN operations.
OPERATIONS: Final = ("none", "create", "remove", "truncate", "rename", "update_config")
_CREATE, _TRUNCATE, _UPDATE_CONFIG = 1, 3, 5


class MapLN(NamedTuple):
    """The state of a database, as the mapping tree holds it."""

    database: DatabaseImpl
    deleted: int


class NameLN(NamedTuple):
    """The database id for a name."""

    db_id: int
    deleted: int


class DatabaseConfig(NamedTuple):
    """The configuration of a database in the replication stream."""

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
    """The utilization counters of one log file (R-CLN-1); sizes in bytes, headers included.

    Counts can be too high, since recovery may count an entry twice. So the estimates below are capped by the totals.
    Averages are single-precision, as in JE (R-CLN-4), and partial sizes are truncated to whole bytes.
    """

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

    @property
    def estimated_obsolete_in_size(self) -> int:
        """Estimated bytes of obsolete INs: their number times the average size of an IN (R-CLN-2)."""
        if self.total_in_count == 0:
            return 0
        average = _single(_single(self.total_in_size) / _single(self.total_in_count))
        return int(_single(_single(min(self.obsolete_in_count, self.total_in_count)) * average))

    @property
    def average_uncounted_ln_size(self) -> float | None:
        """Average size of the LNs that were not counted obsolete with their size; None if no estimate needs it
        (R-CLN-2).
        """
        _, size, counted, uncounted = self._obsolete_lns()
        if uncounted <= 0 or self.total_ln_size <= size or self.total_ln_count <= counted:
            return None
        return _single(_single(self.total_ln_size - size) / _single(self.total_ln_count - counted))

    @property
    def estimated_obsolete_ln_size(self) -> int:
        """Estimated bytes of obsolete LNs: the known sizes, plus the average for the others (R-CLN-2)."""
        if self.total_ln_count == 0:
            return 0
        _, size, _, uncounted = self._obsolete_lns()
        average = self.average_uncounted_ln_size
        if average is not None:
            size += int(_single(_single(uncounted) * average))
        return min(size, self.total_ln_size)

    @property
    def most_obsolete_ln_size(self) -> int:
        """The most bytes that obsolete LNs can take: each obsolete LN of unknown size counts as the largest LN.

        The result is capped so that every other LN has at least the least size. Until v7 the largest size is not known
        (0); then the estimate is returned.
        """
        if self.max_ln_size == 0:
            return self.estimated_obsolete_ln_size
        if self.total_ln_count == 0:
            return 0
        count, size, _, uncounted = self._obsolete_lns()
        if uncounted > 0:
            room = self.total_ln_size - size - (self.total_ln_count - count) * _LEAST_LN_BYTES
            size += min(uncounted * self.max_ln_size, room)
        return min(size, self.total_ln_size)

    @property
    def estimated_obsolete_size(self) -> int:
        """Estimated bytes of garbage in the file, including entries that are neither IN nor LN (R-CLN-3)."""
        return self._with_leftover(self.estimated_obsolete_ln_size)

    @property
    def most_obsolete_size(self) -> int:
        """Like ``estimated_obsolete_size``, but with the largest size that obsolete LNs can take."""
        return self._with_leftover(self.most_obsolete_ln_size)

    @property
    def utilization(self) -> int:
        """Percentage of the file that is still needed, rounded half up; 0 for an empty file (R-CLN-4)."""
        if self.total_size == 0:
            return 0
        part = _single(100.0 * _single(self.total_size - self.estimated_obsolete_size))
        return math.floor(_single(part / _single(self.total_size)) + 0.5)

    def _obsolete_lns(self) -> tuple[int, int, int, int]:
        """Number of obsolete LNs, their known size, number with and without known size; all are within the totals."""
        count = min(self.obsolete_ln_count, self.total_ln_count)
        counted = min(self.obsolete_ln_size_counted, count)
        return count, min(self.obsolete_ln_size, self.total_ln_size), counted, count - counted

    def _with_leftover(self, ln_size: int) -> int:
        if self.total_size <= 0:
            return 0
        # An entry that is neither IN nor LN is garbage as soon as it is written (R-CLN-3).
        leftover = self.total_size - self.total_in_size - self.total_ln_size
        return min(ln_size + self.estimated_obsolete_in_size + leftover, self.total_size)


class FileSummaryLN(NamedTuple):
    """A FileSummary with the offsets that became obsolete since the last summary; ``summary`` is None in a deletion."""

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


def _single(value: float) -> float:
    """The value rounded to single precision."""
    return float(_SINGLE.unpack(_SINGLE.pack(value))[0])


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
        # v6 and v7 do not record the size of the largest LN.
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
    """Read the operation after the key of a NameLN."""
    operation = reader.u8()
    if operation >= len(OPERATIONS):
        raise FormatError("NameLN operation", expected=f"0..{len(OPERATIONS) - 1}", found=str(operation))
    config = _read_config(reader, version) if operation in (_CREATE, _UPDATE_CONFIG) else None
    return NameOperation(operation, config, reader.packed() if operation == _TRUNCATE else None)


def write_name_operation(writer: ByteWriter, tail: NameOperation, version: int) -> None:
    """Write the operation after the key of a NameLN."""
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
    count = reader.packed()
    # One call for all groups: the log of a cleaned environment holds hundreds of thousands of them.
    return unpacked_offsets(count, reader.raw(2 * reader.count(2)))


def unpacked_offsets(count: int, raw: bytes) -> tuple[int, ...]:
    """``unpacked_offsets_plain``, in C if it is there."""
    found = native.unpacked_offsets(count, raw) if native.unpacked_offsets is not None else None
    return unpacked_offsets_plain(count, raw) if found is None else found


def unpacked_offsets_plain(count: int, raw: bytes) -> tuple[int, ...]:
    """Decode ``count`` offsets from their differences: 15-bit groups in two bytes each, least significant first; a
    group g with more to follow is -1 - g.
    """
    length = len(raw) // 2
    shorts = unpack(f"<{length}h", raw)
    high = raw[1::2]
    offsets: list[int] = []
    offset = at = 0
    while at < length:
        found = _MORE_FOLLOWS.search(high, at)
        end = length if found is None else found.start()
        if end > at:
            # If no offset is 32 KiB or more from the previous one, the groups are the differences.
            offsets += islice(accumulate(shorts[at:end], initial=offset), 1, None)
            offset, at = offsets[-1], end
        if found is None:
            break
        difference, at = _grouped(shorts, at)
        # Cut off within a difference.
        if at < 0:
            raise _miscounted(count, len(offsets))
        offset += difference
        offsets.append(offset)
    if len(offsets) != count:
        raise _miscounted(count, len(offsets))
    return tuple(offsets)


def _grouped(shorts: tuple[int, ...], at: int) -> tuple[int, int]:
    """A difference in several groups, and the position of the next one; -1 if the last group is missing."""
    difference = shift = 0
    for pos in range(at, len(shorts)):
        value = shorts[pos]
        difference |= (-1 - value if value < 0 else value) << shift
        shift += 15
        if value >= 0:
            return difference, pos + 1
        if shift > 60:
            raise FormatError("obsolete offset", expected="at most four groups", found="more")
    return 0, -1


def _miscounted(count: int, found: int) -> FormatError:
    return FormatError("obsolete offsets", expected=str(count), found=str(found))


def _write_offsets(writer: ByteWriter, offsets: tuple[int, ...]) -> None:
    shorts = [after - before for before, after in pairwise((0, *offsets))]
    if shorts and max(shorts) > _GROUP:
        differences, shorts = shorts, []
        for difference in differences:
            rest = difference
            while rest > _GROUP:
                # Negative means that another group follows, even for a group of 0.
                shorts.append(-1 - (rest & _GROUP))
                rest >>= 15
            shorts.append(rest)
    writer.packed(len(offsets), len(shorts))
    writer.raw(pack(f"<{len(shorts)}h", *shorts))
