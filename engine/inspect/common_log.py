"""The part of two logs that is equal byte for byte, for copies of one environment.

Files are compared by number, beginning with the first number that both logs have. If one log lacks a file in between,
its cleaner has deleted the file; the file is skipped. The result names the first entry at which the logs differ. Logs
of different environments differ in the header of their first file, which holds its creation time.

Example: A ends at 0x3/0x120; B is a copy of A that has grown since. All bytes of A are in B: A is a prefix of B, which
differs from it at 0x3/0x120.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.events import SILENT, Listener
from engine.format.lsn import NULL_LSN, make_lsn, offset_of
from engine.log.files import LogFile, LogFiles
from engine.log.scan import LogScan, scan_file, scan_log
from engine.storage.base import Storage

IDENTICAL: Final = "identical"
FIRST_IS_PREFIX: Final = "first-is-prefix"
SECOND_IS_PREFIX: Final = "second-is-prefix"
PARTED: Final = "parted"
UNRELATED: Final = "unrelated"
RELATIONS: Final = (IDENTICAL, FIRST_IS_PREFIX, SECOND_IS_PREFIX, PARTED, UNRELATED)

_PIECE_BYTES: Final = 1 << 20
# Above every LSN.
_BEYOND: Final = 1 << 64


class CommonLog(NamedTuple):
    """The common part of two logs.

    Attributes:
        relation: one of ``RELATIONS``.
        first_difference: the LSN of the first entry that differs, or that only one log has; NULL_LSN for identical logs
            and for logs that have nothing in common.
        equal_bytes: number of compared bytes that are equal.
    """

    relation: str
    first_difference: int
    equal_bytes: int


class SharedLog(NamedTuple):
    """The part of two logs that is equal byte for byte.

    Attributes:
        end_lsn: where it ends.
        files: numbers of the files that both logs have.
        is_whole: whether neither log has a file before the end that the other lacks.
    """

    end_lsn: int
    files: frozenset[int]
    is_whole: bool

    def holds(self, lsn: int) -> bool:
        """Whether the entry at an LSN is the same in both."""
        return lsn < self.end_lsn and lsn >> 32 in self.files

    def holds_all(self, lsns: list[int]) -> bool:
        """Whether ``holds`` is true for each of many LSNs."""
        return not lsns or (max(lsns) < self.end_lsn and {lsn >> 32 for lsn in lsns} <= self.files)


def common_log(
    one: Storage, files: LogFiles, other: Storage, other_files: LogFiles, listener: Listener = SILENT
) -> CommonLog:
    """Compare two logs.

    Arguments:
        one, files: the first environment and its log files.
        other, other_files: the second.
        listener: receives the number of compared bytes.

    Raises:
        StorageError: a file cannot be read.
    """
    first, second = ({file.number: file for file in found.files} for found in (files, other_files))
    both = sorted(first.keys() & second.keys())
    ends = max(first, default=-1), max(second, default=-1)
    total, equal = sum(first[number].size_bytes for number in both), 0
    for number in both:
        here, there = first[number], second[number]
        listener.step("compare logs", equal, total)
        same = _same_bytes(one, here, other, there)
        equal += same
        if same == here.size_bytes == there.size_bytes:
            continue
        # The first log ends in this file, and the second contains all of it.
        if same == here.size_bytes and number == ends[0]:
            return CommonLog(FIRST_IS_PREFIX, make_lsn(number, same), equal)
        if same == there.size_bytes and number == ends[1]:
            return CommonLog(SECOND_IS_PREFIX, make_lsn(number, same), equal)
        # Report the entry, not the byte that differs.
        parts = _entry_at(one, here, same)
        # The header of the first file holds its creation time, which differs between environments.
        if number == both[0] and not parts:
            return CommonLog(UNRELATED, NULL_LSN, 0)
        return CommonLog(PARTED, make_lsn(number, parts), equal)
    if not both:
        return CommonLog(UNRELATED, NULL_LSN, 0)
    if ends[0] == ends[1]:
        return CommonLog(IDENTICAL, NULL_LSN, equal)
    longer, relation = (second, FIRST_IS_PREFIX) if ends[0] < ends[1] else (first, SECOND_IS_PREFIX)
    return CommonLog(relation, make_lsn(min(n for n in longer if n > min(ends)), 0), equal)


def shared_log(
    found: CommonLog,
    storage: Storage,
    files: LogFiles,
    other_files: LogFiles,
    jobs: int = 1,
    listener: Listener = SILENT,
) -> SharedLog | None:
    """The equal part of two logs, which a comparison of records can skip; None if the logs have no common part, or if
    that part is damaged.

    Arguments:
        found: the comparison.
        storage, files: the first environment; the common part is checked only here.
        other_files: the second.
        jobs: processes that check.
        listener: receives the number of checked files.
    """
    if found.relation == UNRELATED:
        return None
    end_lsn = _BEYOND if found.first_difference == NULL_LSN else found.first_difference
    others = {file.number for file in other_files.files}
    lacked = others ^ {file.number for file in files.files}
    both = [file for file in files.files if file.number in others]
    for done, met in enumerate(scan_log(storage, files).of_files(both).map_files(_first_damage, jobs)):
        listener.step("check logs", done, len(both))
        # The comparison then reads every record, and so reports the damage.
        if met != NULL_LSN and met < end_lsn:
            return None
    return SharedLog(
        end_lsn=end_lsn,
        files=frozenset(file.number for file in both),
        is_whole=not any(make_lsn(number, 0) < end_lsn for number in lacked),
    )


def _first_damage(scan: LogScan) -> int:
    """The LSN of the first damage of a file, torn tails excepted; NULL_LSN if there is no damage."""
    damages = scan.check(with_sizes=False).damages
    return next((seen.damage.lsn for seen in damages if not seen.damage.is_tail), NULL_LSN)


def _same_bytes(one: Storage, here: LogFile, other: Storage, there: LogFile) -> int:
    """The length of the common beginning of two files."""
    first = one.open(here.path)
    try:
        second = other.open(there.path)
        try:
            at = 0
            while True:
                left, right = first.read(at, _PIECE_BYTES), second.read(at, _PIECE_BYTES)
                if left != right or not left:
                    return at + _same_prefix(left, right)
                at += len(left)
        finally:
            second.close()
    finally:
        first.close()


def _same_prefix(left: bytes, right: bytes) -> int:
    """Length of the common prefix, by bisection, so that bytes are compared in C."""
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _entry_at(storage: Storage, file: LogFile, offset: int) -> int:
    """Offset of the entry or damage that contains a byte of a file; the byte's own offset after the last of them."""
    begins = 0
    for item in scan_file(storage, file, is_last=True).entries():
        at = offset_of(item.lsn)
        if at > offset:
            return begins
        begins = at
    return begins if offset < file.size_bytes else offset
