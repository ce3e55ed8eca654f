"""LSNs by transaction id, for every transaction of the recovery range: eight bytes each.

Ids are given out in sequence, so they are kept in arrays of neighbours; a dictionary would take a hundred bytes for
each, and a recovery can meet millions.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

from engine.format.lsn import NULL_LSN

_BITS: Final = 8
_CHUNK: Final = 1 << _BITS
_NONE: Final = array("q", [NULL_LSN]) * _CHUNK


class TxnLsns:
    """A mapping of transaction ids to LSNs; iterates over the ids."""

    __slots__ = ("_chunks", "_count")

    def __init__(self) -> None:
        self._chunks: dict[int, array[int]] = {}
        self._count = 0

    def setdefault(self, txn_id: int, lsn: int) -> None:
        """Note an LSN for a transaction that has none yet."""
        chunk = self._chunks.get(txn_id >> _BITS)
        if chunk is None:
            chunk = self._chunks[txn_id >> _BITS] = _NONE[:]
        # Also right for negative ids: shift and mask round towards minus infinity together.
        at = txn_id & _CHUNK - 1
        if chunk[at] == NULL_LSN:
            chunk[at] = lsn
            self._count += 1

    def get(self, txn_id: int, default: int = NULL_LSN) -> int:
        """The LSN of a transaction."""
        chunk = self._chunks.get(txn_id >> _BITS)
        lsn = NULL_LSN if chunk is None else chunk[txn_id & _CHUNK - 1]
        return default if lsn == NULL_LSN else lsn

    def __contains__(self, txn_id: int) -> bool:
        chunk = self._chunks.get(txn_id >> _BITS)
        return chunk is not None and chunk[txn_id & _CHUNK - 1] != NULL_LSN

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        for number in sorted(self._chunks):
            chunk = self._chunks[number]
            yield from ((number << _BITS) + at for at, lsn in enumerate(chunk) if lsn != NULL_LSN)
