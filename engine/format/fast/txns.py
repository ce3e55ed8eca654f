"""Tracks open transactions from the bytes of their entries.

General twins: ``entry.ln.decode_ln`` and ``entry.txn_end.decode_txn_end``, which read entries of uncommon form.
"""

from __future__ import annotations

from engine.errors import FormatError
from engine.format.entry_types import COMMON_LNS, TRANSACTIONAL, TXN_ENDS
from engine.format.fast.header import item_size
from engine.format.fast.ln import plain_fields
from engine.format.fast.txn_end import txn_end_fields
from engine.format.header import FLAGS_AT, TYPE_AT


def note_transactions(
    data: bytes,
    positions: list[int],
    at: int,
    lengths: list[int],
    version: int,
    active: dict[int, None],
    prepared: dict[int, None],
) -> int:
    """Note visible records and ends of transactions, as long as they have the common form.

    Arguments:
        data, positions: the buffer, and the positions of its entries.
        at: index of the first position to use.
        lengths: from ``header_lengths``.
        version: log version of the buffer.
        active: a record adds its transaction, an end removes it.
        prepared: an end removes its transaction.

    Returns:
        Index of the position that needs the general decoder; the number of positions if no position does.
    """
    for index in range(at, len(positions)):
        pos = positions[index]
        number = data[pos + TYPE_AT]
        body = pos + lengths[number | data[pos + FLAGS_AT] << 8]
        end = body + item_size(data, pos)
        try:
            if number in TXN_ENDS:
                txn_id, _ = txn_end_fields(data, body, end, version)
                active.pop(txn_id, None)
                prepared.pop(txn_id, None)
                continue
            if number in COMMON_LNS and number in TRANSACTIONAL:
                flags, _, txn_id, _, _ = plain_fields(data, body, end, version, True)
                if flags != -1:
                    active[txn_id] = None
                    continue
        except (FormatError, IndexError):
            # The general decoder determines whether it counts.
            return index
        return index
    return len(positions)
