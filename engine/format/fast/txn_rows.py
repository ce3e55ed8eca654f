"""The transactions of a buffer as rows of numbers, straight from the bytes of its entries.

A call reads the records, Commits and Aborts of one buffer and returns one row per transaction, in the order of first
entries. ``fate_table`` joins the rows of all buffers. General twin: ``engine.inspect.fates``, which decodes the entries
at which ``txn_rows`` stops.

Example: a buffer with two records of transaction 7 (40 and 50 bytes, database 3) and its Commit is one row: id 7, the
LSNs of both records and of the Commit, the time of the Commit, 2 records, 90 bytes, database 3, state
``HAS_END | COMMITTED_BIT``.
"""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.format.bytecursor import unpack
from engine.format.entry.ln import (
    HAS_ABORT_DATA,
    HAS_ABORT_EXPIRATION,
    HAS_ABORT_KEY,
    HAS_ABORT_LSN,
    HAS_ABORT_VLSN,
    HAS_EXPIRATION,
    HAS_PRIOR_FILE,
    HAS_PRIOR_SIZE,
)
from engine.format.entry_types import COMMIT, COMMON_LNS, TRANSACTIONAL, TXN_ENDS
from engine.format.fast.header import item_size
from engine.format.fast.ln import bytes_before_database
from engine.format.fast.txn_end import txn_end_fields
from engine.format.header import FLAGS_AT, HEADER_BYTES, TYPE_AT
from engine.format.lsn import NULL_LSN
from engine.native import extension

# Bits of a row's state. Commit and Abort exclude each other.
COMMITTED_BIT: Final = 1
ABORTED_BIT: Final = 2
HAS_END: Final = 4
# The largest database id in a row.
MOST_DB: Final = (1 << 62) - 1
_RARE: Final = HAS_ABORT_KEY | HAS_ABORT_DATA | HAS_ABORT_VLSN | HAS_ABORT_EXPIRATION | HAS_EXPIRATION
_RECORDS: Final = COMMON_LNS & TRANSACTIONAL


class TxnRows(NamedTuple):
    """Rows of transactions; each column but ``states`` consists of signed 64-bit numbers as an array has them.

    Attributes:
        reached: index of the position that needs the general decoder; the number of positions if no position does.
        ids, first, last, ends, times, lns, sizes, dbs: id; first and last record; Commit or Abort, and its time; number
            of records, and their bytes with headers; database of the first record. NULL_LSN stands for a missing entry.
        states: a byte for each row: 0, or ``HAS_END`` and the outcome.
        others: pairs of row and database, for the databases beside the first one; a pair may occur more than once.
    """

    reached: int
    ids: bytes
    first: bytes
    last: bytes
    ends: bytes
    times: bytes
    lns: bytes
    sizes: bytes
    dbs: bytes
    states: bytes
    others: bytes


def txn_rows(data: bytes, positions: list[int], at: int, lengths: list[int], version: int, lsn: int) -> TxnRows:
    """As ``txn_rows_plain``; in C where the extension is there and knows the log version."""
    found = None if extension is None else extension.txn_rows(data, positions, at, lengths, version, lsn)
    return txn_rows_plain(data, positions, at, lengths, version, lsn) if found is None else TxnRows._make(found)


def txn_rows_plain(data: bytes, positions: list[int], at: int, lengths: list[int], version: int, lsn: int) -> TxnRows:
    """The transactions of the visible entries at some positions, up to the first entry of uncommon form.

    Arguments:
        data, positions: the buffer, and the positions of its entries.
        at: index of the first position to use.
        lengths: from ``header_lengths``.
        version: log version of the buffer.
        lsn: LSN of the buffer's first byte, as ``stored_lsn`` gives it.
    """
    rows: dict[int, int] = {}
    ids, first, last, ends, times = list[int](), list[int](), list[int](), list[int](), list[int]()
    lns, sizes, dbs, others, states = list[int](), list[int](), list[int](), list[int](), bytearray()
    latest: dict[int, int] = {}
    flag_bytes, reached = bytes_before_database(version), at
    while reached < len(positions):
        pos = positions[reached]
        fields = _fields_at(data, pos, lengths, version, flag_bytes)
        if fields is None:
            break
        number, size, txn_id, value = fields
        row = rows.get(txn_id)
        if row is None:
            row = rows[txn_id] = len(ids)
            ids.append(txn_id)
            for column in (first, last, ends):
                column.append(NULL_LSN)
            for column in (times, lns, sizes, dbs):
                column.append(0)
            states.append(0)
        reached += 1
        if number in TXN_ENDS:
            ends[row], times[row] = lsn + pos, value
            states[row] = HAS_END | (COMMITTED_BIT if number == COMMIT else ABORTED_BIT)
            continue
        if not lns[row]:
            first[row], dbs[row] = lsn + pos, value
        elif value != dbs[row] and value != latest.get(row):
            others += (row, value)
            latest[row] = value
        last[row] = lsn + pos
        lns[row] += 1
        sizes[row] += size
    return TxnRows(
        reached=reached,
        ids=_column(ids),
        first=_column(first),
        last=_column(last),
        ends=_column(ends),
        times=_column(times),
        lns=_column(lns),
        sizes=_column(sizes),
        dbs=_column(dbs),
        states=bytes(states),
        others=_column(others),
    )


def _column(numbers: list[int]) -> bytes:
    return array("q", numbers).tobytes()


def _fields_at(
    data: bytes, pos: int, lengths: list[int], version: int, flag_bytes: int
) -> tuple[int, int, int, int] | None:
    """The entry at a position: type, size with header, transaction, and the database of a record or the time of an end.

    None for an entry that the general decoder has to read.
    """
    if not 0 <= pos <= len(data) - HEADER_BYTES:
        return None
    number = data[pos + TYPE_AT]
    body = pos + lengths[number | data[pos + FLAGS_AT] << 8]
    end = body + item_size(data, pos)
    if end > len(data):
        return None
    try:
        if number in _RECORDS:
            db_id, txn_id = _record_fields(data, body, end, flag_bytes)
            return number, end - pos, txn_id, db_id
        if number in TXN_ENDS:
            return number, end - pos, *txn_end_fields(data, body, end, version)
    except (FormatError, IndexError):
        # The general decoder determines what it is, and whether it counts.
        return None
    return None


def _record_fields(data: bytes, at: int, end: int, flag_bytes: int) -> tuple[int, int]:
    """Database and transaction of an LN; ``flag_bytes`` from ``bytes_before_database``.

    Raises:
        FormatError, IndexError: the general decoder is needed.
    """
    if not flag_bytes:
        raise FormatError("a log version with other bodies")
    flags, second = data[at], data[at + 1] if flag_bytes > 1 else 0
    db_id, pos = unpack(data, at + flag_bytes)
    if flags & HAS_ABORT_LSN:
        _, pos = unpack(data, pos)
    txn_id, pos = unpack(data, pos)
    _, pos = unpack(data, pos)
    if flags & _RARE:
        pos = _after_rare(data, pos, end, flags)
    if second & HAS_PRIOR_SIZE:
        _, pos = unpack(data, pos)
    if second & HAS_PRIOR_FILE:
        _, pos = unpack(data, pos)
    length, pos = unpack(data, pos)
    if length < -1 or pos + max(length, 0) > end or db_id > MOST_DB:
        raise FormatError("the fields of a record do not fit its entry")
    return db_id, txn_id


def _after_rare(data: bytes, pos: int, end: int, flags: int) -> int:
    """The position after abort information and expiration."""
    for flag in (HAS_ABORT_KEY, HAS_ABORT_DATA):
        if flags & flag:
            length, pos = unpack(data, pos)
            if not 0 <= length <= end - pos:
                raise FormatError("bytes run past the end of the entry")
            pos += length
    for flag in (HAS_ABORT_VLSN, HAS_ABORT_EXPIRATION, HAS_EXPIRATION):
        if flags & flag:
            _, pos = unpack(data, pos)
    return pos
