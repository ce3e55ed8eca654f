"""The fate of every transaction in the log.

Transaction numbers restart after each boot, so each begin record makes an entry, and a number may occur twice. A
transaction that began before the existing log has ``first`` 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from engine.derby.format import instant, record
from engine.derby.format.operations import transaction
from engine.derby.format.operations.layout import GlobalId
from engine.derby.format.record import Record

OPEN = "open"
COMMITTED = "committed"
ABORTED = "aborted"
PREPARED = "prepared"


class XactFate(NamedTuple):
    """One transaction.

    Attributes:
        number: its number.
        first: instant of the begin record; 0 if that record is not in the log.
        last: instant of its last record.
        outcome: ``committed``, ``aborted``, ``prepared`` or ``open``.
        internal: whether it is a structure change or a checkpoint (rolled back before all others).
        global_id: the name of the transaction for an external transaction manager, or None.
        records: number of records of the transaction, including begin and end.
        compensations: CLRs among them.
        log_bytes: size of these records.
    """

    number: int
    first: int
    last: int
    outcome: str
    internal: bool
    global_id: GlobalId | None
    records: int
    compensations: int
    log_bytes: int


class _XactLife:
    """A transaction that is being followed."""

    __slots__ = ("compensations", "first", "global_id", "internal", "last", "log_bytes", "number", "outcome", "records")

    def __init__(self, number: int) -> None:
        self.number = number
        self.first = instant.NONE
        self.last = instant.NONE
        self.outcome = OPEN
        self.internal = False
        self.global_id: GlobalId | None = None
        self.records = 0
        self.compensations = 0
        self.log_bytes = 0

    def see(self, one: Record) -> None:
        self.last = one.instant
        self.records += 1
        self.log_bytes += one.end - one.instant
        if one.undo_instant is not None:
            self.compensations += 1
        operation = one.operation
        if isinstance(operation, transaction.Begin):
            self.first = one.instant
            self.internal = operation.status & transaction.INTERNAL != 0
            self.global_id = operation.global_id
        elif isinstance(operation, transaction.End):
            self.global_id = self.global_id or operation.global_id
            # An end record without LAST is a prepare.
            self.outcome = PREPARED
            if one.group & record.LAST:
                self.outcome = COMMITTED if operation.status & transaction.COMMITTED else ABORTED

    def fate(self) -> XactFate:
        return XactFate(
            number=self.number,
            first=self.first,
            last=self.last,
            outcome=self.outcome,
            internal=self.internal,
            global_id=self.global_id,
            records=self.records,
            compensations=self.compensations,
            log_bytes=self.log_bytes,
        )


def fates(records: Iterable[Record]) -> list[XactFate]:
    """The fate of every transaction in the records, in the order of their first records.

    Arguments:
        records: records in log order, checksum records too.
    """
    lives: list[_XactLife] = []
    current: dict[int, _XactLife] = {}
    for one in records:
        number = one.transaction
        # Checksum records belong to no transaction.
        if number is None:
            continue
        life = current.get(number)
        # Numbers restart after a boot, so a begin record starts another transaction even if the number was open.
        if life is None or isinstance(one.operation, transaction.Begin):
            life = current[number] = _XactLife(number)
            lives.append(life)
        life.see(one)
        if one.group & record.LAST:
            del current[number]
    return [life.fate() for life in lives]
