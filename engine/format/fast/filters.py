"""Preselects entries by their bytes, so that for most others no object has to be made.

An entry that is left out does not match; an entry that is kept may not match either: the caller decodes it and decides.
General twin: ``engine.inspect.selection``, whose matcher makes that decision.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from engine.errors import FormatError
from engine.format.bytecursor import unpack
from engine.format.entry_types import COMMON_LNS, NODES, TRANSACTIONAL, TXN_ENDS
from engine.format.fast.header import item_size
from engine.format.fast.ln import plain_fields
from engine.format.fast.txn_end import ended_transaction
from engine.format.header import FLAGS_AT, TYPE_AT

_FEW_KEYS: Final = 4
# Places of a key in a buffer that are looked at one by one.
_MOST_PLACES: Final = 1000


class ByteFilter:
    """Conditions on the fields of an entry; None accepts any value.

    Arguments:
        txns, dbs: ids.
        keys: whole keys of LNs.
        key_prefixes: prefixes, as alternatives to whole keys.
    """

    def __init__(
        self,
        txns: frozenset[int] | None,
        dbs: frozenset[int] | None,
        keys: frozenset[bytes] | None,
        key_prefixes: tuple[bytes, ...],
    ) -> None:
        self._txns = txns
        self._dbs = dbs
        self._keys = keys
        self._key_prefixes = key_prefixes
        # Searching a buffer for few keys is faster than examining its entries.
        sought = {*(keys or ()), *key_prefixes}
        self._sought = [] if keys is None or len(sought) > _FEW_KEYS else list(sought)

    def may_hold(self, data: bytes) -> bool:
        """Whether a buffer may hold matching entries; LNs hold their keys unchanged."""
        return not self._sought or any(key in data for key in self._sought)

    def holding(self, data: bytes, positions: list[int]) -> list[int]:
        """The positions of LNs that may match, by the places of the keys in the buffer; no entry is examined.

        Arguments:
            data, positions: the buffer, and the positions of all its LNs, ascending.
        """
        if not self._sought:
            return positions
        found: dict[int, None] = {}
        for key in self._sought:
            at = data.find(key)
            # An empty key is everywhere, and so may be a short one.
            for _ in range(_MOST_PLACES if key else 0):
                if at < 0:
                    break
                index = bisect_right(positions, at) - 1
                if index >= 0:
                    found[positions[index]] = None
                at = data.find(key, at + 1)
            if at >= 0:
                return positions
        return sorted(found)

    def sieved(self, data: bytes, positions: list[int], lengths: list[int], version: int) -> list[int]:
        """The positions of entries that may match.

        Arguments:
            data, positions: the buffer, and the positions of its entries.
            lengths: from ``header_lengths``.
            version: log version of the buffer.
        """
        kept: list[int] = []
        for pos in positions:
            number = data[pos + TYPE_AT]
            at = pos + lengths[number | data[pos + FLAGS_AT] << 8]
            try:
                fits = self._fits(data, number, at, at + item_size(data, pos), version)
            except (FormatError, IndexError):
                # The general decoder determines whether it can be decoded.
                fits = True
            if fits:
                kept.append(pos)
        return kept

    def _fits(self, data: bytes, number: int, at: int, end: int, version: int) -> bool:
        txns, dbs = self._txns, self._dbs
        if number in COMMON_LNS:
            flags, db_id, txn_id, length, data_at = plain_fields(data, at, end, version, number in TRANSACTIONAL)
            if flags == -1:
                return True
            if dbs is not None and db_id not in dbs:
                return False
            if txns is not None and (number not in TRANSACTIONAL or txn_id not in txns):
                return False
            return self._keys is None or self._has_key(data[data_at + max(length, 0) : end])
        if number in TXN_ENDS:
            return (txns is None or ended_transaction(data, at, version) in txns) and dbs is None and self._keys is None
        if number in NODES and dbs is not None:
            return unpack(data, at)[0] in dbs
        return True

    def _has_key(self, key: bytes) -> bool:
        keys = self._keys
        return keys is None or key in keys or key.startswith(self._key_prefixes)
