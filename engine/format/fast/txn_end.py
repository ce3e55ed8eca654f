"""Fast access to Commits and Aborts.

General twins: ``entry.txn_end.decode_txn_end`` and ``encode_txn_end``.
"""

from __future__ import annotations

from typing import Final

from engine.errors import FormatError
from engine.format.bytecursor import LONG_BYTES, pack, unpack
from engine.format.versions import DTVLSN, LN_FLAGS_FIRST, MASTER_TERM, PACKED_NUMBERS

# No master, no DTVLSN, and (since v22) no term; later versions encode no master as -1.
_LOCAL: Final = bytes(2)
_LOCAL_WITH_TERM: Final = b"\xff" + bytes(2)


def ended_transaction(data: bytes, at: int, version: int) -> int:
    """The transaction id of a Commit or Abort whose body is at a position, without decoding the rest.

    Raises:
        FormatError, IndexError: the body is too short.
    """
    pos = at
    if version < PACKED_NUMBERS:
        return _unpacked_id(data, at)
    if version >= LN_FLAGS_FIRST:
        _, pos = unpack(data, pos)
    return unpack(data, pos)[0]


def _unpacked_id(data: bytes, at: int) -> int:
    if at + LONG_BYTES > len(data):
        raise FormatError("the entry of a transaction's end is too short")
    return int.from_bytes(data[at : at + LONG_BYTES], "little", signed=True)


def txn_end_fields(data: bytes, at: int, end: int, version: int) -> tuple[int, int]:
    """Transaction id and time of a Commit or Abort whose body is ``[at, end)`` of a buffer; no record is made.

    Raises:
        FormatError, IndexError: as ``decode_txn_end``.
    """
    pos = at
    if version >= LN_FLAGS_FIRST:
        _, pos = unpack(data, pos)
    txn_id, pos = unpack(data, pos)
    time, pos = unpack(data, pos)
    # Before v12 the last LSN comes next; then master, DTVLSN and term.
    numbers = 1 + (version < LN_FLAGS_FIRST) + (version >= DTVLSN) + (version >= MASTER_TERM)
    for _ in range(numbers):
        _, pos = unpack(data, pos)
    if pos != end:
        raise FormatError("the fields of a transaction's end do not fill its entry")
    return txn_id, time


def encode_local_end(last_lsn: int, txn_id: int, time_ms: int, version: int) -> bytes:
    """The body of a Commit or Abort outside the replication stream, since v13.

    Gives the same bytes as ``encode_txn_end``, without creating a record: every transaction writes such an entry.
    """
    tail = _LOCAL if version < MASTER_TERM else _LOCAL_WITH_TERM
    return pack(last_lsn) + pack(txn_id) + pack(time_ms) + tail
