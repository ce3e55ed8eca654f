"""Buckets: sparse mappings from VLSN to LSN for a part of one log file.

Rules R-VLSN-4 to 9, 20, 23, 24, 50, 53. A bucket stores the offsets of VLSN first, first + stride, first + 2 × stride,
... (0: not known), and separately the LSN of its last VLSN. Only the last bucket of an index changes.

Example, stride 3, at most 4 mappings, VLSN v at offset 100 × v: puts of 1 to 12 give ``{1..12: 1 4 7 10}``. 13 is on
the stride and the array is full, so it opens the next bucket. Exact LSNs are known for 1, 4, 7, 10 and 12.

Threads: one writer, under the index's mutex, and readers without any lock. The last VLSN and its LSN are one tuple,
replaced in one step, and the array only grows; so the result of a reader is at worst a moment old.
"""

from __future__ import annotations

import sys
from array import array
from typing import Final

from engine.errors import DamageError, plural
from engine.format.entry.internal_db import VLSNBucketRecord
from engine.format.lsn import NULL_LSN, file_of, format_lsn, make_lsn, offset_of
from engine.vlsn.limits import BucketLimits

_UNKNOWN: Final = 0
# Offsets as unsigned 32-bit numbers.
_OFFSETS: Final = "I"
# ``file_of`` and ``offset_of`` without the check for null LSNs, since this runs for every entry of a stream.
_FILE_SHIFT: Final = 32
_OFFSET_MASK: Final = 0xFFFFFFFF


class VLSNBucket:
    """Mappings of one file, from ``first`` to ``last``.

    Arguments:
        limits: stride and limits.
        file_number: the log file.
        first: the first VLSN; it must be the first one put.
    """

    __slots__ = ("_limits", "_offsets", "_tail", "closed", "file_number", "first")

    is_ghost = False

    def __init__(self, limits: BucketLimits, file_number: int, first: int) -> None:
        self._limits = limits
        self.file_number = file_number
        self.first = first
        self.closed = False
        self._tail = (first, NULL_LSN)
        self._offsets = array(_OFFSETS, (_UNKNOWN,))

    @property
    def last(self) -> int:
        """The last VLSN."""
        return self._tail[0]

    @property
    def last_lsn(self) -> int:
        """LSN of the last VLSN."""
        return self._tail[1]

    def owns(self, vlsn: int) -> bool:
        """Whether the VLSN lies between first and last."""
        return self.first <= vlsn <= self._tail[0]

    @classmethod
    def from_record(cls, record: VLSNBucketRecord) -> VLSNBucket:
        """The bucket for a database record; it accepts no more mappings.

        Raises:
            DamageError: the record contradicts itself.
        """
        file_number, stride, first, last, last_lsn, offsets = record
        if first < 1 or last < first:
            raise contradiction(first, f"VLSNs {first}..{last}")
        if file_of(last_lsn) != file_number:
            raise contradiction(first, f"file 0x{file_number:x}, last LSN {format_lsn(last_lsn)}")
        # Offsets of VLSNs after ``last`` would give LSNs of other entries.
        if not offsets or (len(offsets) - 1) * stride > last - first:
            raise contradiction(first, f"{plural(len(offsets), 'offset')} for VLSNs {first}..{last} at stride {stride}")
        bucket = cls(BucketLimits(stride, len(offsets), 0), file_number, first)
        bucket._offsets = array(_OFFSETS, offsets)
        bucket._tail = (last, last_lsn)
        bucket.closed = True
        return bucket

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory that it takes."""
        return sys.getsizeof(self) + sys.getsizeof(self._offsets)

    def put(self, vlsn: int, lsn: int) -> bool:
        """Add a mapping; ``vlsn`` must not be before ``first``.

        Returns:
            False if it does not fit: the bucket is closed or full, the LSN is in another file, or the distance is too
            long (in bytes, or in VLSNs beyond the capacity of a bucket).
        """
        # All offsets of a bucket are in one file.
        if self.closed or lsn >> _FILE_SHIFT != self.file_number:
            return False
        offset = lsn & _OFFSET_MASK
        last, last_lsn = self._tail
        # A VLSN that arrives late fills its slot and does not move the end.
        is_new = vlsn > last or last_lsn == NULL_LSN
        index, off_stride = divmod(vlsn - self.first, self._limits.stride)
        offsets = self._offsets
        # VLSNs come from the log: a forged one must not cause the allocation of many slots for skipped VLSNs (D-17).
        if index - len(offsets) > self._limits.max_mappings:
            return False
        # The distance counts from the last element of the array, which may be a placeholder (R-VLSN-6).
        if is_new and last_lsn != NULL_LSN and offset - offsets[-1] > self._limits.max_distance:
            return False
        if not off_stride:
            count = len(offsets)
            if index < count:
                offsets[index] = offset
            elif is_new and last_lsn != NULL_LSN and count >= self._limits.max_mappings:
                return False
            else:
                # Skipped VLSNs may still arrive late; reserve their slots.
                offsets.extend([_UNKNOWN] * (index - count))
                offsets.append(offset)
        if is_new:
            self._tail = (vlsn, lsn)
        return True

    def get(self, vlsn: int) -> int:
        """The exact LSN of a VLSN, or NULL_LSN if it is not known."""
        last, last_lsn = self._tail
        if vlsn == last:
            return last_lsn
        index, off_stride = divmod(vlsn - self.first, self._limits.stride)
        if off_stride or not 0 <= index < len(self._offsets):
            return NULL_LSN
        return self._lsn_at(index)

    def lte(self, vlsn: int) -> int:
        """LSN of the nearest known VLSN at or before ``vlsn``; NULL_LSN if there is no such VLSN."""
        last, last_lsn = self._tail
        if vlsn >= last:
            return last_lsn
        # The element may be a placeholder: go back to a known one.
        index = min((vlsn - self.first) // self._limits.stride, len(self._offsets) - 1)
        while index >= 0 and self._offsets[index] == _UNKNOWN:
            index -= 1
        return self._lsn_at(index) if index >= 0 else NULL_LSN

    def gte(self, vlsn: int) -> int:
        """LSN of the nearest known VLSN at or after ``vlsn``; after the last stored offset it is that of ``last``."""
        last, last_lsn = self._tail
        # Rounded up: the first element that is not before the VLSN.
        index = max(-((self.first - vlsn) // self._limits.stride), 0)
        count = len(self._offsets)
        while index < count and self._offsets[index] == _UNKNOWN:
            index += 1
        return self._lsn_at(index) if vlsn < last and index < count else last_lsn

    def mappings(self) -> list[tuple[int, int]]:
        """All known (VLSN, LSN), ascending."""
        last, last_lsn = self._tail
        stride = self._limits.stride
        known = [
            (self.first + at * stride, make_lsn(self.file_number, offset))
            for at, offset in enumerate(self._offsets)
            if offset != _UNKNOWN
        ]
        if not known or known[-1][0] != last:
            known.append((last, last_lsn))
        return known

    def cut_tail(self, delete_start: int, prev_lsn: int) -> VLSNBucket | None:
        """The bucket without ``delete_start`` and later VLSNs (R-VLSN-50).

        Arguments:
            delete_start: the first VLSN to remove.
            prev_lsn: LSN of the VLSN before it; if NULL_LSN, the bucket ends at its last stored element.

        Returns:
            This bucket if it ends earlier, None if nothing is left, otherwise a new one.
        """
        if self.last < delete_start:
            return self
        if self.first >= delete_start:
            return None
        # R-VLSN-50: keep the elements before ``delete_start``.
        kept = self._copy(0, -((self.first - delete_start) // self._limits.stride))
        # The caller knows the new last VLSN's place, whether or not it is on the stride.
        if prev_lsn != NULL_LSN:
            kept._tail = (delete_start - 1, prev_lsn)
            return kept
        while kept._offsets and kept._offsets[-1] == _UNKNOWN:
            kept._offsets.pop()
        if not kept._offsets:
            return None
        at = len(kept._offsets) - 1
        kept._tail = (self.first + at * self._limits.stride, self._lsn_at(at))
        return kept

    def cut_head(self, delete_end: int) -> VLSNBucket | None:
        """The bucket without ``delete_end`` and earlier VLSNs.

        Returns:
            This bucket if it begins later, None if nothing is left, otherwise a new one that begins at the next known
            VLSN.
        """
        if self.last <= delete_end:
            return None
        if self.first > delete_end:
            return self
        index = (delete_end - self.first) // self._limits.stride + 1
        while index < len(self._offsets) and self._offsets[index] == _UNKNOWN:
            index += 1
        if index < len(self._offsets):
            kept = self._copy(index, len(self._offsets))
        else:
            # No mapping in between is known, but the LSN of the last VLSN always is.
            kept = VLSNBucket(self._limits, self.file_number, self.last)
            kept._offsets[0] = offset_of(self.last_lsn)
        kept._tail = self._tail
        return kept

    def record(self) -> VLSNBucketRecord:
        """The bucket as a database record."""
        last, last_lsn = self._tail
        return VLSNBucketRecord(self.file_number, self._limits.stride, self.first, last, last_lsn, tuple(self._offsets))

    def __str__(self) -> str:
        return f"bucket {self.first}..{self.last} in file 0x{self.file_number:x}"

    def _lsn_at(self, index: int) -> int:
        offset = self._offsets[index]
        return NULL_LSN if offset == _UNKNOWN else make_lsn(self.file_number, offset)

    def _copy(self, start: int, stop: int) -> VLSNBucket:
        """A copy with a range of the elements; it accepts mappings if this bucket does. The caller sets its tail."""
        kept = VLSNBucket(self._limits, self.file_number, self.first + start * self._limits.stride)
        kept._offsets = self._offsets[start:stop]
        kept.closed = self.closed
        return kept


def one_mapping(limits: BucketLimits, vlsn: int, lsn: int) -> VLSNBucket:
    """A bucket with a single VLSN."""
    bucket = VLSNBucket(limits, file_of(lsn), vlsn)
    bucket.put(vlsn, lsn)
    return bucket


def contradiction(first: int, found: str) -> DamageError:
    """The error for a bucket record that contradicts itself."""
    return DamageError(
        f"VLSN index: the bucket of VLSN {first} contradicts itself",
        found=found,
        consequence="entries of the replication stream cannot be found through it",
        hint="run jetool vlsn check, then jetool vlsn rebuild",
    )
