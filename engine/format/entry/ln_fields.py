"""Single fields of leaf entries, read where they lie: no record is made, and the rest is not looked at.

For those who look at millions of LNs and need little of each: recovery, and whoever reads values. The layout is that of
``ln``; what is uncommon, and versions that keep a field elsewhere, are left to its codecs.
"""

from __future__ import annotations

from typing import Final

from engine.errors import FormatError
from engine.format.entry.ln import HAS_ABORT_LSN, HAS_PRIOR_FILE, HAS_PRIOR_SIZE, UNCOMMON_FLAGS
from engine.format.entry_types import TRANSACTIONAL
from engine.format.header import HEADER_BYTES, HEADER_WITH_VLSN_BYTES, has_vlsn
from engine.format.packed import unpack
from engine.format.versions import CREATION_TIMES, LN_FLAGS_FIRST, LN_KEY_FIRST, PRIOR_VERSION

_TYPE_AT: Final = 4
_FLAGS_AT: Final = 5


def transaction_of(data: bytes, at: int, version: int) -> int | None:
    """The transaction id of a transactional LN without decoding the rest.

    Arguments:
        data, at: the body begins there.
        version: of its log.

    Returns:
        The id; None where the version keeps it elsewhere, so that the body has to be decoded.

    Raises:
        FormatError, IndexError: the body is too short.
    """
    if not LN_FLAGS_FIRST <= version < LN_KEY_FIRST:
        return None
    pos = at + (2 if version >= PRIOR_VERSION else 1)
    _, pos = unpack(data, pos)
    if data[at] & HAS_ABORT_LSN:
        _, pos = unpack(data, pos)
    return unpack(data, pos)[0]


def plain_fields(data: bytes, at: int, end: int, version: int, transactional: bool) -> tuple[int, int, int, int, int]:
    """What redo and readers need of a user's LN, where that is nothing uncommon; no record is made.

    Arguments:
        data, at, end: where the body is.
        version: of its log.
        transactional: what its type says.

    Returns:
        Flags with flags2 in the second byte, database id, transaction id (0 for none), length of the data (-1 for a
        deletion), and where the data begins; the key is all that is after it. Flags -1: decode it the general way.

    Raises:
        FormatError, IndexError: the fields do not fit the body.
    """
    flags = data[at]
    if flags & UNCOMMON_FLAGS or not LN_FLAGS_FIRST <= version < LN_KEY_FIRST:
        return -1, 0, 0, 0, 0
    pos = at + 1
    if version >= PRIOR_VERSION:
        flags |= data[pos] << 8
        pos += 1
    db_id, pos = unpack(data, pos)
    txn_id = 0
    if transactional:
        if flags & HAS_ABORT_LSN:
            _, pos = unpack(data, pos)
        txn_id, pos = unpack(data, pos)
        _, pos = unpack(data, pos)
    if flags & HAS_PRIOR_SIZE << 8:
        _, pos = unpack(data, pos)
    if flags & HAS_PRIOR_FILE << 8:
        _, pos = unpack(data, pos)
    length, pos = unpack(data, pos)
    if length < -1 or pos + max(length, 0) > end:
        raise FormatError("data runs past the end of the entry", expected=f"{length} bytes", found=f"{end - pos}")
    return flags, db_id, txn_id, length, pos


def plain_data(entry: bytes, version: int, db_id: int) -> bytes | None:
    """The data of a record of a database, from its whole log entry; None: decode it the general way.

    Arguments:
        entry: header and body, of one of ``COMMON_LNS``, intact.
        version: of its log.
    """
    number, header_flags = entry[_TYPE_AT], entry[_FLAGS_AT]
    at = HEADER_WITH_VLSN_BYTES if has_vlsn(header_flags, version) else HEADER_BYTES
    try:
        flags, found, _, length, pos = plain_fields(entry, at, len(entry), version, number in TRANSACTIONAL)
    except (FormatError, IndexError):
        return None
    return entry[pos : pos + length] if flags >= 0 and found == db_id and length >= 0 else None


def database_of(body: bytes, version: int) -> int:
    """The database id of an LN body, or of its first bytes, without decoding the rest.

    Raises:
        FormatError, IndexError: the body is too short.
    """
    if version < LN_FLAGS_FIRST:
        return unpack(body, 0)[0]
    return unpack(body, 1 + (version >= PRIOR_VERSION) + (version >= CREATION_TIMES))[0]
