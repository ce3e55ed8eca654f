"""The transactions of a log in columns: some 20 bytes each, since there can be millions.

Rows are in the order of first entries. Ids ascend in a log (those of replicated transactions descend), so the row of an
id is looked up in an array; an id far away from all others has its row in a dictionary.

General twin: ``engine.inspect.fates``, which decodes entries of uncommon form and adds them.
"""

from __future__ import annotations

import sys
from array import array
from typing import Final

from engine.format.entry_types import ABORT, COMMIT
from engine.format.fast.packed_ints import PackedInts
from engine.format.fast.txn_rows import ABORTED_BIT, COMMITTED_BIT, HAS_END, MOST_DB, TxnRows, txn_rows
from engine.format.lsn import NULL_LSN

# Bits of a row's state beside those of ``txn_rows``.
LISTED: Final = 8
AFTER_END: Final = 16
_DECIDED: Final = COMMITTED_BIT | ABORTED_BIT
_OUTCOMES: Final = {COMMIT: COMMITTED_BIT, ABORT: ABORTED_BIT}
# The most ids that may be skipped between two known ones; each takes four bytes.
_WIDEST_GAP: Final = 16
_NO_ROW: Final = -1
# In the column of databases, values from here on stand for sets of several; ids are smaller.
_SEVERAL: Final = MOST_DB + 1
# An LSN with a file number from 0x80000000 on does not fit into a signed column unchanged.
_SIGN: Final = 1 << 63
_LSN_BITS: Final = (1 << 64) - 1
_NUMBER_BYTES: Final = 8


def stored_lsn(lsn: int) -> int:
    """An LSN in the form stored in the columns."""
    return lsn if lsn < _SIGN else lsn - _LSN_BITS - 1


def lsn_of(stored: int) -> int:
    """The LSN for a value stored in a column."""
    return stored if stored == NULL_LSN else stored & _LSN_BITS


class _Rows:
    """The row of each id."""

    def __init__(self) -> None:
        self._first = 0
        self._dense = PackedInts("i")
        self._others: dict[int, int] = {}

    def get(self, key: int) -> int:
        at = key - self._first
        if 0 <= at < len(self._dense):
            row = self._dense.get(at)
            if row != _NO_ROW:
                return row
        return self._others.get(key, _NO_ROW) if self._others else _NO_ROW

    def put(self, key: int, row: int) -> None:
        dense = self._dense
        if not len(dense):
            self._first = key
        gap = key - self._first - len(dense)
        if 0 <= gap <= _WIDEST_GAP:
            for _ in range(gap):
                dense.append(_NO_ROW)
            dense.append(row)
        elif gap < 0 and key >= self._first:
            dense.put(key - self._first, row)
        else:
            self._others[key] = row


class FateTable:
    """All transactions of a pass over a log.

    Attributes:
        ids, first, last, end, times, lns, sizes, dbs, states: the columns. ``databases`` gives the meaning of the
            values of ``dbs`` for transactions with records.
    """

    def __init__(self) -> None:
        self.ids = PackedInts("q")
        self.first = PackedInts("q")
        self.last = PackedInts("q")
        self.end = PackedInts("q")
        self.times = PackedInts("q")
        self.lns = PackedInts("q")
        self.sizes = PackedInts("q")
        self.dbs = PackedInts("q")
        self.states = bytearray()
        # Sets of several databases: there are few, and each gets a number.
        self._several: list[frozenset[int]] = []
        self._numbers: dict[frozenset[int], int] = {}
        self._rows = _Rows()
        self._replicated_rows = _Rows()

    def row_of(self, txn_id: int) -> int:
        """The row of a transaction; -1 if it is not known."""
        return self._rows.get(txn_id) if txn_id >= 0 else self._replicated_rows.get(-txn_id)

    def known_row(self, txn_id: int) -> int:
        """The row of a transaction; a new one if it is not known."""
        row = self.row_of(txn_id)
        if row != _NO_ROW:
            return row
        return self._new_row(txn_id, NULL_LSN, 0, 0, 0)

    def _put_row(self, txn_id: int, row: int) -> None:
        if txn_id >= 0:
            self._rows.put(txn_id, row)
        else:
            self._replicated_rows.put(-txn_id, row)

    def _new_row(self, txn_id: int, stored: int, lns: int, size: int, db: int) -> int:
        row = len(self.ids)
        self._put_row(txn_id, row)
        self.ids.append(txn_id)
        self.first.append(stored)
        self.last.append(stored)
        self.end.append(NULL_LSN)
        self.times.append(0)
        self.lns.append(lns)
        self.sizes.append(size)
        self.dbs.append(db)
        self.states.append(0)
        return row

    def add_ln(self, lsn: int, txn_id: int, db_id: int, total_bytes: int) -> None:
        """Add a record of a transaction."""
        row = self.row_of(txn_id)
        stored = stored_lsn(lsn)
        # Most transactions have one record: its row is written once.
        if row == _NO_ROW:
            db = db_id if db_id < _SEVERAL else self._number_of(frozenset((db_id,)))
            self._new_row(txn_id, stored, 1, total_bytes, db)
            return
        if self.first.get(row) == NULL_LSN:
            self.first.put(row, stored)
        self.last.put(row, stored)
        count = self.lns.get(row) + 1
        self.lns.put(row, count)
        self.sizes.put(row, self.sizes.get(row) + total_bytes)
        known = self.dbs.get(row)
        if count == 1:
            self.dbs.put(row, db_id if db_id < _SEVERAL else self._number_of(frozenset((db_id,))))
        elif known != db_id:
            self.dbs.put(row, self._with_db(known, db_id))

    def databases(self, stored: int) -> frozenset[int]:
        """The databases for a value of the column ``dbs``."""
        return self._several[stored - _SEVERAL] if stored >= _SEVERAL else frozenset((stored,))

    def _with_db(self, stored: int, db_id: int) -> int:
        known = self.databases(stored)
        if db_id in known:
            return stored
        return self._number_of(known | {db_id})

    def _number_of(self, together: frozenset[int]) -> int:
        number = self._numbers.get(together)
        if number is None:
            number = self._numbers[together] = len(self._several)
            self._several.append(together)
        return _SEVERAL + number

    def add_end(self, lsn: int, type_number: int, txn_id: int, time: int, *, after_end: bool) -> None:
        """Add a Commit, Abort or Prepare."""
        row = self.known_row(txn_id)
        self.end.put(row, stored_lsn(lsn))
        self.times.put(row, time)
        state = self.states[row] & ~(_DECIDED | AFTER_END) | HAS_END | _OUTCOMES.get(type_number, 0)
        self.states[row] = state | AFTER_END if after_end else state

    def add_listed(self, txn_id: int) -> None:
        """Note that a RollbackStart lists the transaction."""
        self.states[self.known_row(txn_id)] |= LISTED

    def take(
        self, data: bytes, positions: list[int], at: int, lengths: list[int], version: int, lsn: int, after_end: bool
    ) -> int:
        """Add the visible entries of transactions in a buffer, as long as they have the common form.

        Arguments:
            data, positions: the buffer, and the positions of its entries.
            at: index of the first position to use.
            lengths: from ``header_lengths``.
            version: log version of the buffer.
            lsn: LSN of the buffer's first byte.
            after_end: the entries come after the end of the log.

        Returns:
            Index of the position that needs the general decoder; the number of positions if no position does.
        """
        rows = txn_rows(data, positions, at, lengths, version, stored_lsn(lsn))
        self._add_rows(rows, _numbers_of(rows.ids), after_end)
        return rows.reached

    def _add_rows(self, rows: TxnRows, ids: array[int], after_end: bool) -> None:
        """Add the rows of a buffer; most of its transactions are new."""
        states = rows.states
        if after_end:
            states = bytes([state | AFTER_END if state & HAS_END else state for state in states])
        begin, next_row = 0, len(self.ids)
        for index, txn_id in enumerate(ids):
            row = self.row_of(txn_id)
            if row == _NO_ROW:
                self._put_row(txn_id, next_row)
                next_row += 1
                continue
            self._append_rows(rows, states, begin, index)
            begin = index + 1
            self._join_row(row, rows, states[index], index)
        self._append_rows(rows, states, begin, len(ids))
        others = _numbers_of(rows.others)
        for at in range(0, len(others), 2):
            row = self.row_of(ids[others[at]])
            self.dbs.put(row, self._with_db(self.dbs.get(row), others[at + 1]))

    def _append_rows(self, rows: TxnRows, states: bytes, begin: int, end: int) -> None:
        if begin == end:
            return
        first, stop = begin * _NUMBER_BYTES, end * _NUMBER_BYTES
        self.ids.extend(rows.ids[first:stop])
        self.first.extend(rows.first[first:stop])
        self.last.extend(rows.last[first:stop])
        self.end.extend(rows.ends[first:stop])
        self.times.extend(rows.times[first:stop])
        self.lns.extend(rows.lns[first:stop])
        self.sizes.extend(rows.sizes[first:stop])
        self.dbs.extend(rows.dbs[first:stop])
        self.states += states[begin:end]

    def _join_row(self, row: int, rows: TxnRows, state: int, index: int) -> None:
        """Add what a buffer holds of a transaction that has a row."""
        if state & HAS_END:
            self.end.put(row, _number_at(rows.ends, index))
            self.times.put(row, _number_at(rows.times, index))
            self.states[row] = self.states[row] & ~(_DECIDED | AFTER_END) | state
        count = _number_at(rows.lns, index)
        if not count:
            return
        known, db_id = self.lns.get(row), _number_at(rows.dbs, index)
        if self.first.get(row) == NULL_LSN:
            self.first.put(row, _number_at(rows.first, index))
        self.last.put(row, _number_at(rows.last, index))
        self.lns.put(row, known + count)
        self.sizes.put(row, self.sizes.get(row) + _number_at(rows.sizes, index))
        if not known:
            self.dbs.put(row, db_id)
        elif self.dbs.get(row) != db_id:
            self.dbs.put(row, self._with_db(self.dbs.get(row), db_id))


def _numbers_of(data: bytes) -> array[int]:
    numbers: array[int] = array("q")
    numbers.frombytes(data)
    return numbers


def _number_at(data: bytes, index: int) -> int:
    at = index * _NUMBER_BYTES
    return int.from_bytes(data[at : at + _NUMBER_BYTES], sys.byteorder, signed=True)
