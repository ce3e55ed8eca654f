"""The transaction table that the redo pass builds (R-DRB-30, 31).

A begin makes an entry, an end removes it, a prepare marks it. The first record seen of a transaction is its begin,
except in one case: a transaction that ended between the undo and the redo low water mark may have begun before the
scan. The end or prepare of such a transaction is ignored, and so are its other records, which all lie before the redo
low water mark.

Example, ``crash-five-transactions``, scan from undoLWM (1,40674), redoLWM (1,41652): T1 (193) began at (1,40512) and is
never entered; its commit at (1,41286) is ignored. T2 (194) is entered at (1,40674) and leaves at (1,42251). T4 (196)
stays: a loser.

The instants of each open transaction's records are kept, eight bytes a record, so that undo reads those records only. A
backward scan filtered by transaction number would find the same records.
"""

from __future__ import annotations

from array import array

from engine.derby.format import instant, record
from engine.derby.format.operations import transaction
from engine.derby.format.operations.layout import GlobalId
from engine.derby.format.record import Record
from engine.errors import DamageError


class Xact:
    """An entry of the table.

    Attributes:
        number: the transaction number, unique in the part of the log that recovery reads.
        first: instant of the begin record.
        internal: whether it is rolled back before all others (begin status 0x10).
        global_id: the name of the transaction for an external transaction manager.
        prepared: whether a prepare record was seen; such a transaction is kept, not undone (R-DRB-58).
        instants: the records of the transaction in log order, including its begin record.
    """

    __slots__ = ("first", "global_id", "instants", "internal", "number", "prepared")

    def __init__(self, number: int, first: int, *, internal: bool, global_id: GlobalId | None) -> None:
        self.number = number
        self.first = first
        self.internal = internal
        self.global_id = global_id
        self.prepared = False
        self.instants = array("q", (first,))


class XactTable:
    """Transactions that have begun and not ended.

    Arguments:
        redo_lwm: records before it may belong to transactions that began before the scan.
    """

    __slots__ = ("_redo_lwm", "ended", "highest", "open")

    def __init__(self, redo_lwm: int) -> None:
        self._redo_lwm = redo_lwm
        self.open: dict[int, Xact] = {}
        self.highest = 0
        self.ended = 0

    def see(self, one: Record) -> None:
        """Note a record; called in log order. DamageError when the transaction cannot have written it."""
        number = one.transaction
        if number is None:
            return
        # Every number counts, even that of a transaction whose begin is not in the scan (R-DRB-61).
        if number > self.highest:
            self.highest = number
        if one.group & record.FIRST and isinstance(one.operation, transaction.Begin):
            if number in self.open:
                raise _inconsistent(one, f"transaction {number} begins a second time")
            internal = one.operation.status & transaction.INTERNAL != 0
            self.open[number] = Xact(number, one.instant, internal=internal, global_id=one.operation.global_id)
            return
        entry = self.open.get(number)
        if entry is None:
            # Only records before redoLWM may belong to a transaction that began before the scan.
            if one.instant >= self._redo_lwm:
                raise _inconsistent(one, f"a record of transaction {number}, which has not begun")
            return
        if one.group & record.LAST:
            del self.open[number]
            self.ended += 1
            return
        if one.group & record.PREPARED:
            # This is a prepare, not the last record: the transaction stays open until the transaction manager decides.
            entry.prepared = True
            if isinstance(one.operation, transaction.End):
                entry.global_id = one.operation.global_id
        entry.instants.append(one.instant)

    def losers(self) -> list[Xact]:
        """Transactions to roll back, in Derby's order: internal ones first, each kind by descending number."""
        found = [entry for entry in self.open.values() if not entry.prepared]
        return sorted(found, key=lambda entry: (not entry.internal, -entry.number))

    def in_doubt(self) -> list[Xact]:
        """Prepared transactions, oldest first."""
        return sorted((entry for entry in self.open.values() if entry.prepared), key=lambda entry: entry.first)

    def oldest(self) -> int:
        """Begin instant of the oldest open transaction; 0 if no transaction is open."""
        return min((entry.first for entry in self.open.values()), default=instant.NONE)


def _inconsistent(one: Record, what: str) -> DamageError:
    return DamageError(
        what,
        lsn=instant.show(one.instant),
        consequence="it is not known which transactions are open",
        hint="run verify; restore from a backup when the log cannot be explained",
    )
