"""Valid records after the end of the log, which Derby drops silently (derby-log-format.md 11.1).

A damaged byte in the middle of the log looks like a torn tail. So the rest of the file, and every later log file, is
searched for envelopes whose instant equals their position, whose two lengths agree and whose body decodes. Bytes that
pass all three tests count as a record, since a coincidence is practically impossible.

Commits (and prepares) among them were reported to an application as durable. A tail without commits is the result of a
crash during a write. So is a partly written group: its flush never returned, so its commits were not reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.derby.format import instant, record
from engine.derby.format.log_file import HEADER_SIZE, TRAILER
from engine.derby.format.operations.transaction import Checksum
from engine.derby.format.record import Record
from engine.derby.log import DerbyLogFiles, ScanEnd
from engine.errors import DamageError

_CHUNK = 1 << 20
_KEPT = 100


class RecordsAfterEnd(NamedTuple):
    """The bytes and records after the end of the log.

    Attributes:
        records: number of valid records, checksum records included.
        commits: number of valid commit and prepare records that were reported to the application.
        torn_commits: number of commit and prepare records in a group whose write was interrupted.
        first, last: instants of the first and the last valid record; 0 if there are none.
        transactions: numbers of the transactions committed or prepared there, the first hundred.
        other_bytes: whether any of the bytes is not zero.
        files: numbers of the later log files that exist.
    """

    records: int
    commits: int
    torn_commits: int
    first: int
    last: int
    transactions: tuple[int, ...]
    other_bytes: bool
    files: tuple[int, ...]


def look_after_end(log: DerbyLogFiles, end: ScanEnd) -> RecordsAfterEnd:
    """Search everything after the append position."""
    number = instant.file_of(end.append)
    files = tuple(n for n in log.numbers() if n > number)
    count = commits = torn_commits = first = last = 0
    torn = torn_group_end(log, end)
    transactions: list[int] = []
    for found in records_after(log, end):
        count += 1
        first = first or found.instant
        last = found.instant
        if found.group & (record.COMMIT | record.PREPARED) and found.transaction is not None:
            # The flush of this commit never returned, so the commit was not reported to the application.
            if found.instant < torn:
                torn_commits += 1
                continue
            commits += 1
            if len(transactions) < _KEPT:
                transactions.append(found.transaction)
    # Records in a later file also count as bytes after the end.
    dirty = count > 0 or has_bytes(log, number, instant.position_of(end.append))
    return RecordsAfterEnd(
        records=count,
        commits=commits,
        torn_commits=torn_commits,
        first=first,
        last=last,
        transactions=tuple(transactions),
        other_bytes=dirty,
        files=files,
    )


def torn_group_end(log: DerbyLogFiles, end: ScanEnd) -> int:
    """Instant after a group whose write did not finish, 0 if no such group is at the append position.

    The checksum record exists, and the last four bytes that it covers are zero. These bytes are the length of the last
    record, so that record was only partly written. Its flush did not return, and no commit in it was reported.
    """
    guard = log.try_record(end.append)
    if isinstance(guard, str) or not isinstance(guard.operation, Checksum) or log.group_matches(guard):
        return instant.NONE
    stop = guard.end + guard.operation.length
    last = log.read(instant.file_of(stop), instant.position_of(stop) - TRAILER.size, TRAILER.size)
    return stop if not any(last) else instant.NONE


def records_after(log: DerbyLogFiles, end: ScanEnd) -> Iterator[Record]:
    """The valid records after the append position, later files included, in log order."""
    number, position = instant.file_of(end.append), instant.position_of(end.append)
    yield from _search(log, number, position)
    for later in log.numbers():
        if later > number:
            try:
                # A foreign file holds no record of this log.
                log.header(later)
            except DamageError:
                continue
            yield from _search(log, later, HEADER_SIZE)


def has_bytes(log: DerbyLogFiles, number: int, position: int) -> bool:
    """Whether a log file has a nonzero byte from a position on."""
    size = log.size(number)
    while position < size:
        chunk = log.read(number, position, min(_CHUNK, size - position))
        if chunk.count(0) != len(chunk):
            return True
        position += len(chunk)
    return False


def next_valid(log: DerbyLogFiles, number: int, position: int) -> int:
    """The instant of the first valid record of a file at or after a position; 0 if there is no such record."""
    found = next(_search(log, number, position), None)
    return instant.NONE if found is None else found.instant


def _search(log: DerbyLogFiles, number: int, position: int) -> Iterator[Record]:
    """Valid records of one file from a position on, resynchronising by the file number in envelopes."""
    size = log.size(number)
    mark = number.to_bytes(4, "big")
    while position < size:
        found = log.try_record(instant.make(number, position))
        # The next record starts right after a valid one; only after damage is it searched byte by byte.
        if not isinstance(found, str) and not _covers_too_much(found, size):
            yield found
            position = instant.position_of(found.end)
            continue
        position = _next_mark(log, number, position + 1, size, mark)


def _next_mark(log: DerbyLogFiles, number: int, position: int, size: int, mark: bytes) -> int:
    """The next position whose envelope could state the right instant, or the end of the file."""
    while position + 12 <= size:
        chunk = log.read(number, position, min(_CHUNK, size - position))
        # The instant's file number stands 4 bytes into the envelope, its position right after.
        at = chunk.find(mark, 4)
        while at != -1 and at + 8 <= len(chunk):
            start = position + at - 4
            if int.from_bytes(chunk[at + 4 : at + 8], "big") == start:
                return start
            at = chunk.find(mark, at + 1)
        if position + len(chunk) >= size:
            return size
        # An envelope may begin in the last 11 bytes of the chunk and end in the next one.
        position += len(chunk) - 11
    return size


def _covers_too_much(found: Record, size: int) -> bool:
    """Whether a checksum record covers bytes beyond the file; such a record is a leftover, not valid."""
    operation = found.operation
    return isinstance(operation, Checksum) and instant.position_of(found.end) + operation.length > size
