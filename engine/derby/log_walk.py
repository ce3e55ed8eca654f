"""The whole log for a dump: record by record, and past damage.

Recovery stops at the first place that is not a record (``log``). A dump goes on: it searches for the next envelope
whose instant equals its position, whose lengths agree and whose body decodes, and reports what it skipped. Zeros to the
end of a file are not damage. A checksum record that does not match its group is reported, and the records of the group
are still shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.derby.format import instant
from engine.derby.format.log_file import HEADER_SIZE
from engine.derby.format.operations import registry
from engine.derby.format.operations.transaction import Checksum
from engine.derby.format.record import Record
from engine.derby.log import DerbyLogFiles
from engine.derby.log_tail import has_bytes, next_valid
from engine.errors import DamageError


class DerbyDamage(NamedTuple):
    """A place that does not hold a record, or a group that does not match.

    Attributes:
        at: instant where it starts.
        skipped_bytes: bytes that were skipped; 0 for a group that does not match.
        reason: what is wrong.
        resumed_at: instant of the next record in the file; 0 if there is no further record.
    """

    at: int
    skipped_bytes: int
    reason: str
    resumed_at: int


class RecordSelection(NamedTuple):
    """Which records are wanted. Fields are ANDed, values of one field ORed; an empty field selects all.

    Attributes:
        start, stop: instants; records from ``start`` on that begin before ``stop`` (0 = open).
        files: numbers of log files.
        transactions: transaction numbers.
        operations: names of the registry, lower case.
        containers: container numbers.
        pages: page numbers.
    """

    start: int = instant.NONE
    stop: int = instant.NONE
    files: frozenset[int] = frozenset()
    transactions: frozenset[int] = frozenset()
    operations: frozenset[str] = frozenset()
    containers: frozenset[int] = frozenset()
    pages: frozenset[int] = frozenset()

    def wants(self, one: Record) -> bool:
        """Whether a record is selected (``walk`` tests files and instants)."""
        if self.transactions and one.transaction not in self.transactions:
            return False
        operation = one.operation
        if self.operations and registry.type_of(operation).name.lower() not in self.operations:
            return False
        if self.containers and getattr(operation, "container", None) not in self.containers:
            return False
        return not self.pages or getattr(operation, "page", None) in self.pages


ALL: Final = RecordSelection()


def walk(log: DerbyLogFiles, selection: RecordSelection = ALL) -> Iterator[Record | DerbyDamage]:
    """Records and damage in log order.

    Arguments:
        log: the log files.
        selection: which records to return; damage is always reported.
    """
    for number in log.numbers():
        if selection.files and number not in selection.files:
            continue
        if selection.start and number < instant.file_of(selection.start):
            continue
        if selection.stop and number > instant.file_of(selection.stop):
            return
        try:
            log.header(number)
        except DamageError as error:
            yield DerbyDamage(instant.make(number, 0), 0, error.what, instant.NONE)
            # The records after a damaged header can still be read.
            if log.size(number) < HEADER_SIZE:
                continue
        for found in _walk_file(log, number):
            if selection.stop and _instant_of(found) >= selection.stop:
                return
            if _instant_of(found) >= selection.start and (isinstance(found, DerbyDamage) or selection.wants(found)):
                yield found


def _walk_file(log: DerbyLogFiles, number: int) -> Iterator[Record | DerbyDamage]:
    position, size = HEADER_SIZE, log.size(number)
    while position < size:
        at = instant.make(number, position)
        found = log.try_record(at)
        if not isinstance(found, str):
            if isinstance(found.operation, Checksum) and not log.group_matches(found):
                yield DerbyDamage(at, 0, "the bytes after a checksum record do not match it", found.end)
            yield found
            position = instant.position_of(found.end)
            continue
        # Zeros to the end: preallocated, or left by a log switch.
        if not has_bytes(log, number, position):
            return
        resumed = next_valid(log, number, position + 1)
        reason = found if log.read(number, position, 4) != bytes(4) else "zeros where a record should be"
        if resumed == instant.NONE:
            yield DerbyDamage(at, size - position, reason, instant.NONE)
            return
        yield DerbyDamage(at, instant.position_of(resumed) - position, reason, resumed)
        position = instant.position_of(resumed)


def _instant_of(found: Record | DerbyDamage) -> int:
    return found.at if isinstance(found, DerbyDamage) else found.instant
