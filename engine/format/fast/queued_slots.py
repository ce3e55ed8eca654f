"""Loops over the slots of BINs: queues of slots whose records are checked later, and counts by log file.

A queue belongs to a range of 2**RANGE_BITS bytes of a log file, and its number is ``LSN >> RANGE_BITS``. A slot takes
16 bytes in it, two numbers in the byte order of the machine: the offset in the range and the size of the entry, as
``offset << 32 | size``, and the hash of the key.

Only plain slots are queued: the record is live, in the log, of a known size, and does not expire. Only plain entries
match a slot; the general decoder decides on all others.

General twin: ``engine.verify.records.RecordCheck``, which decides on every slot that is left over or unlike its entry.

Example: a slot with the key ``k`` and the LSN 0x5/0x82c, 56 bytes: queue 0x500, the numbers 0x82c00000038 and
``hash(b"k")``.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence, Set
from struct import Struct
from typing import TYPE_CHECKING, Final, TypeAlias

from engine.format.fast.ln import is_user_entry, plain_key
from engine.format.lsn import file_of, is_null
from engine.native import chosen

if TYPE_CHECKING:
    # Only mypyc uses this annotation; it needs no package at run time.
    from mypy_extensions import i64

RANGE_BITS: Final = 24
# Entries are not larger; the size in a slot may be wrong.
MOST_BYTES: Final = 0x7FFFFFFF
SLOT: Final = Struct("=qq")
_RANGE_MASK: Final = (1 << RANGE_BITS) - 1

Queues: TypeAlias = dict[int, bytearray]
Tally: TypeAlias = dict[int, list[int]]


def queue_slots_plain(
    lsns: list[int],
    sizes: list[int],
    states: bytearray,
    expirations: list[int],
    keys: Sequence[bytes],
    not_plain: int,
    end_lsn: int,
    files: Set[int],
    queues: Queues,
) -> list[int]:
    """Queue the plain slots of a BIN; returns the indexes of the other slots.

    Arguments:
        not_plain: bits of a state; a slot that has one of them is not queued.
        end_lsn: the end of the log; a slot that refers to a later LSN is not queued.
        files: the numbers of the log files; a slot that refers to another file is not queued.
    """
    rest: list[int] = []
    end: i64 = end_lsn
    for index in range(len(lsns)):
        lsn: i64 = lsns[index]
        size: i64 = sizes[index]
        if size <= 0 or size > MOST_BYTES or lsn < 0 or lsn >= end or states[index] & not_plain or expirations[index]:
            rest.append(index)
            continue
        queue = queues.get(lsn >> RANGE_BITS)
        if queue is None:
            if lsn >> 32 not in files:
                rest.append(index)
                continue
            queue = queues[lsn >> RANGE_BITS] = bytearray()
        queue += SLOT.pack((lsn & _RANGE_MASK) << 32 | size, hash(keys[index]))
    return rest


def unlike_slots_plain(
    data: bytes, start: int, queue: bytes, version: int, db_id: int, obsolete: array[int]
) -> list[int]:
    """The queued slots of a range whose entries are not plain insertions or updates with their keys, or are obsolete.

    Arguments:
        data: bytes of the log.
        start: the offset of ``data`` in the range of the queue.
        version: log version of the file.
        db_id: the database of the slots.
        obsolete: the obsolete offsets in the range, ascending, as ``array("Q")``.

    Returns:
        Indexes of the slots: 1 for the second one.
    """
    found, unused = [], frozenset(obsolete)
    for index, (place, hashed) in enumerate(SLOT.iter_unpack(queue)):
        at, size = (place >> 32) - start, place & MOST_BYTES
        entry = data[at : at + size] if at >= 0 else b""
        key = plain_key(entry, version, db_id) if is_user_entry(entry, size, version) else None
        if key is None or hash(key) != hashed or place >> 32 in unused:
            found.append(index)
    return found


def tally_slots_plain(
    lsns: list[int], sizes: list[int], states: bytearray, expirations: list[int], not_counted: int, tally: Tally
) -> None:
    """Count the records of a BIN by log file.

    Arguments:
        not_counted: bits of a state; a slot that has one of them is not counted.
        tally: by file number: records, their bytes, and the number of expiring ones; the counts are added.
    """
    for at in range(len(lsns)):
        if states[at] & not_counted or is_null(lsns[at]):
            continue
        number = file_of(lsns[at])
        counts = tally.get(number)
        if counts is None:
            counts = tally[number] = [0, 0, 0]
        counts[0] += 1
        counts[1] += sizes[at]
        if expirations[at]:
            counts[2] += 1


queue_slots = chosen("queue_slots", queue_slots_plain)
unlike_slots = chosen("unlike_slots", unlike_slots_plain)
tally_slots = chosen("tally_slots", tally_slots_plain)
