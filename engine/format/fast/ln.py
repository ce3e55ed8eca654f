"""Fast access to leaf entries of users' records, v12 to v18, the versions of most logs.

General twins: ``entry.ln.decode_ln`` and ``encode_ln``, which document the fields. Uncommon fields, and versions with
another layout, are left to them. Readers of single fields make no record and ignore the rest.

The layout, repeated in the order of the bytes: flags, since v16 flags2, database id; with a transaction the abort LSN
(if its flag is set), transaction id and last LSN; rare fields; length of the data or -1, data, key.
"""

from __future__ import annotations

from typing import Final

from engine.errors import FormatError, plural
from engine.format.bytecursor import pack, unpack
from engine.format.entry.ln import (
    HAS_ABORT_DATA,
    HAS_ABORT_EXPIRATION,
    HAS_ABORT_KEY,
    HAS_ABORT_LSN,
    HAS_ABORT_VLSN,
    HAS_EXPIRATION,
    HAS_PRIOR_FILE,
    HAS_PRIOR_SIZE,
    LN,
    LNKind,
    decode_ln,
)
from engine.format.entry_types import COMMON_LNS, COMMON_PUTS, TRANSACTIONAL
from engine.format.fast.header import is_intact, item_size
from engine.format.header import (
    FLAGS_AT,
    HEADER_WITH_VLSN_BYTES,
    INVISIBLE,
    REPLICATED,
    TYPE_AT,
    VLSN_PRESENT,
    header_bytes,
)
from engine.format.lsn import NULL_LSN
from engine.format.versions import CREATION_TIMES, LN_FLAGS_FIRST, LN_KEY_FIRST, PACKED_NUMBERS, PRIOR_VERSION
from engine.format.vlsn import NULL_VLSN

# Flags of fields outside the plain insertion or update that is read here.
UNCOMMON_FLAGS: Final = HAS_ABORT_KEY | HAS_ABORT_DATA | HAS_ABORT_VLSN | HAS_ABORT_EXPIRATION | HAS_EXPIRATION
# The header flags of an entry of the replication stream.
_STREAM_FLAGS: Final = REPLICATED | VLSN_PRESENT
_UNCOMMON_UNLESS_EXPIRING: Final = UNCOMMON_FLAGS & ~HAS_EXPIRATION
# Makes a record without its constructor, which is slower where there are millions.
_new_tuple: Final = tuple.__new__


def decode_plain_ln(body: bytes, version: int, kind: LNKind) -> LN:
    """Decode an LN body of a transactional user type; same result as ``decode_ln``, but faster in the common case."""
    if LN_FLAGS_FIRST <= version < LN_KEY_FIRST:
        common = _decode_common(body, version)
        if common is not None:
            return common
    return decode_ln(body, version, kind)


def _decode_common(body: bytes, version: int) -> LN | None:
    """Decode a transactional LN without rare fields, v12 to v18, as most entries are. None: use the general decoder."""
    flags = body[0]
    if flags & UNCOMMON_FLAGS:
        return None
    pos = 1
    flags2 = 0
    if version >= PRIOR_VERSION:
        flags2 = body[1]
        pos = 2
    abort_lsn = last_lsn = NULL_LSN
    prior_size = 0
    prior_file = -1
    # Small database ids, and the NULL of a transaction's first LN, are one byte: no call needed.
    db_id = body[pos]
    if db_id <= 119:
        pos += 1
    else:
        db_id, pos = unpack(body, pos)
    if flags & HAS_ABORT_LSN:
        abort_lsn, pos = unpack(body, pos)
    txn_id, pos = unpack(body, pos)
    if body[pos] == 0xFF:
        pos += 1
    else:
        last_lsn, pos = unpack(body, pos)
    if flags2 & HAS_PRIOR_SIZE:
        prior_size, pos = unpack(body, pos)
    if flags2 & HAS_PRIOR_FILE:
        prior_file, pos = unpack(body, pos)
    length = body[pos]
    if length <= 119:
        pos += 1
    else:
        length, pos = unpack(body, pos)
    data = None
    if length >= 0:
        data = body[pos : pos + length]
        pos += length
        # A truncated slice would look like shorter data.
        if pos > len(body):
            raise FormatError(
                "data runs past the end of the entry", expected=plural(length, "byte"), found=f"{len(data)}"
            )
    elif length != -1:
        raise FormatError("data length", expected="-1 or more", found=str(length))
    fields = (
        flags, flags2, 0, db_id, abort_lsn, txn_id, last_lsn, None, None, NULL_VLSN, 0, 0, 0, 0, 0, 0, prior_size,
        prior_file, None, data, None, body[pos:], None,
    )  # fmt: skip
    return _new_tuple(LN, fields)


def encode_user_ln(record: LN) -> bytes:
    """Encode an LN of a user type in v16 to v18, like ``encode_ln``, in one expression for the common case.

    Arguments:
        record: without an abort key and without VLSNs; ``txn_id`` None makes it non-transactional.
    """
    flags, flags2 = record.flags, record.flags2
    rare = encode_rare(
        flags,
        flags2,
        record.abort_data,
        record.abort_expiration,
        record.expiration,
        record.prior_size,
        record.prior_file,
    )
    txn = record.abort_lsn, record.txn_id, record.last_lsn
    return encode_user_fields(flags, flags2, record.db_id, txn, rare, record.data, record.key)


def encode_user_fields(
    flags: int,
    flags2: int,
    db_id: int,
    txn: tuple[int, int | None, int],
    rare: bytes,
    data: bytes | None,
    key: bytes,
) -> bytes:
    """Like ``encode_user_ln``, from the fields, for callers that write many entries and need no record.

    Arguments:
        txn: abort LSN, transaction id, last LSN; id None makes it non-transactional.
        rare: from ``encode_rare``.
    """
    abort_lsn, txn_id, last_lsn = txn
    head = bytes((flags, flags2)) + pack(db_id)
    if txn_id is not None:
        if flags & HAS_ABORT_LSN:
            head += pack(abort_lsn)
        head += pack(txn_id) + pack(last_lsn)
    return head + rare + (b"\xff" + key if data is None else pack(len(data)) + data + key)


def encode_rare(
    flags: int,
    flags2: int,
    abort_data: bytes | None,
    abort_expiration: int,
    expiration: int,
    prior_size: int,
    prior_file: int,
) -> bytes:
    """The fields between the transaction fields and the data, in the order of v12 and later; usually empty."""
    if not (flags2 or flags & (HAS_ABORT_DATA | HAS_ABORT_EXPIRATION | HAS_EXPIRATION)):
        return b""
    parts = []
    if flags & HAS_ABORT_DATA:
        abort_data = abort_data or b""
        parts += [pack(len(abort_data)), abort_data]
    if flags & HAS_ABORT_EXPIRATION:
        parts.append(pack(abort_expiration))
    if flags & HAS_EXPIRATION:
        parts.append(pack(expiration))
    if flags2 & HAS_PRIOR_SIZE:
        parts.append(pack(prior_size))
    if flags2 & HAS_PRIOR_FILE:
        parts.append(pack(prior_file))
    return b"".join(parts)


def moved_body(
    body: bytes, version: int, transactional: bool, key: bytes, expiration: int, flags2: int, prior: tuple[int, int]
) -> bytes | None:
    """The body of the non-transactional update, in v16 to v18, that moves a record unchanged to a new entry.

    Arguments:
        body, version, transactional: of the entry that holds the record now.
        key: the key of its slot.
        expiration, flags2: of the new entry.
        prior: size and file of the old entry, if ``flags2`` has them.

    Returns:
        The body; None if the general decoder is needed, for example for a deletion.

    Raises:
        FormatError, IndexError: the fields do not fit into the body.
    """
    flags, db_id, _, length, pos = plain_fields(body, 0, len(body), version, transactional, True)
    if flags < 0 or length < 0:
        return None
    flags = HAS_EXPIRATION if expiration else 0
    rare = encode_rare(flags, flags2, None, 0, expiration, prior[0], prior[1])
    return encode_user_fields(flags, flags2, db_id, (NULL_LSN, None, NULL_LSN), rare, body[pos : pos + length], key)


def transaction_of(data: bytes, at: int, version: int) -> int | None:
    """The transaction id of a transactional LN, without decoding the rest.

    Arguments:
        data, at: the buffer, and the position of the body.
        version: log version of the buffer.

    Returns:
        The id; None if the version has another layout, so that the body must be decoded.

    Raises:
        FormatError, IndexError: the body is too short.
    """
    flag_bytes = bytes_before_database(version)
    if not flag_bytes:
        return None
    _, pos = unpack(data, at + flag_bytes)
    if data[at] & HAS_ABORT_LSN:
        _, pos = unpack(data, pos)
    return unpack(data, pos)[0]


def bytes_before_database(version: int) -> int:
    """Number of flag bytes before the database id, for ``transaction_of``; 0 for versions that it does not support."""
    if not LN_FLAGS_FIRST <= version < LN_KEY_FIRST:
        return 0
    return 2 if version >= PRIOR_VERSION else 1


def plain_fields(
    data: bytes, at: int, end: int, version: int, transactional: bool, expiring: bool = False
) -> tuple[int, int, int, int, int]:
    """The fields of a user's LN that redo and readers need, if it has only common fields; no record is made.

    Arguments:
        data, at, end: the buffer, and the bounds of the body.
        version: log version of the buffer.
        transactional: whether the type is transactional.
        expiring: treat an expiration as common.

    Returns:
        Flags with flags2 in the second byte, database id, transaction id (0 for none), length of the data (-1 for a
        deletion), and the position of the data; the key is the rest after it. Flags -1: use the general decoder.

    Raises:
        FormatError, IndexError: the fields do not fit into the body.
    """
    flags = data[at]
    uncommon = _UNCOMMON_UNLESS_EXPIRING if expiring else UNCOMMON_FLAGS
    if flags & uncommon or not LN_FLAGS_FIRST <= version < LN_KEY_FIRST:
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
    if flags & HAS_EXPIRATION:
        _, pos = unpack(data, pos)
    if flags & HAS_PRIOR_SIZE << 8:
        _, pos = unpack(data, pos)
    if flags & HAS_PRIOR_FILE << 8:
        _, pos = unpack(data, pos)
    length, pos = unpack(data, pos)
    if length < -1 or pos + max(length, 0) > end:
        raise FormatError("data runs past the end of the entry", expected=plural(length, "byte"), found=f"{end - pos}")
    return flags, db_id, txn_id, length, pos


def replaced_version(data: bytes, at: int, transactional: bool) -> tuple[int, int, int]:
    """The version that an LN replaces, for an LN in which ``plain_fields`` found only common fields.

    Arguments:
        data, at: the buffer, and the position of the body; log version at least PRIOR_VERSION.
        transactional: whether the type is transactional.

    Returns:
        The LSN of the version before the transaction (NULL_LSN for none), the file of the replaced version (-1 if the
        LN does not record it), and the size of its entry (0 if the LN does not record it).
    """
    flags, flags2 = data[at], data[at + 1]
    abort_lsn, prior_file, prior_size = NULL_LSN, -1, 0
    _, pos = unpack(data, at + 2)
    if transactional:
        if flags & HAS_ABORT_LSN:
            abort_lsn, pos = unpack(data, pos)
        _, pos = unpack(data, pos)
        _, pos = unpack(data, pos)
    if flags & HAS_EXPIRATION:
        _, pos = unpack(data, pos)
    if flags2 & HAS_PRIOR_SIZE:
        prior_size, pos = unpack(data, pos)
    if flags2 & HAS_PRIOR_FILE:
        prior_file, pos = unpack(data, pos)
    return abort_lsn, prior_file, prior_size


def plain_data(entry: bytes, version: int, db_id: int) -> bytes | None:
    """The data of a record of a database, from its whole log entry; None: use the general decoder.

    Arguments:
        entry: header and body of one of ``COMMON_LNS``, intact.
        version: log version of the entry.
    """
    number, header_flags = entry[TYPE_AT], entry[FLAGS_AT]
    at = header_bytes(header_flags, version)
    try:
        flags, found, _, length, pos = plain_fields(entry, at, len(entry), version, number in TRANSACTIONAL)
    except (FormatError, IndexError):
        # The general decoder reports the error.
        return None
    return entry[pos : pos + length] if flags >= 0 and found == db_id and length >= 0 else None


def is_user_entry(data: bytes, size: int, version: int) -> bool:
    """Whether the bytes are one whole, visible entry of a user's record, with the right checksum."""
    if (
        len(data) != size
        or size < HEADER_WITH_VLSN_BYTES
        or data[TYPE_AT] not in COMMON_LNS
        or data[FLAGS_AT] & INVISIBLE
    ):
        return False
    return header_bytes(data[FLAGS_AT], version) + item_size(data, 0) == size and is_intact(data)


def plain_key(entry: bytes, version: int, db_id: int) -> bytes | None:
    """The key of the record that a whole, visible, non-provisional log entry puts; None for anything uncommon.

    Arguments:
        entry: header and body, intact.
        version: log version of the entry.
        db_id: the database; entries of other databases give None.
    """
    number, header_flags = entry[TYPE_AT], entry[FLAGS_AT]
    if number not in COMMON_PUTS or header_flags & ~_STREAM_FLAGS:
        return None
    try:
        at = header_bytes(header_flags, version)
        flags, found, _, length, pos = plain_fields(entry, at, len(entry), version, number in TRANSACTIONAL)
    except (FormatError, IndexError):
        return None
    return entry[pos + length :] if flags >= 0 and found == db_id and length >= 0 else None


def database_of(body: bytes, version: int) -> int:
    """The database id in an LN body, or in its first bytes, without decoding the rest.

    Raises:
        FormatError, IndexError: the body is too short.
    """
    return database_at(body, 0, version)


def database_at(data: bytes, at: int, version: int) -> int:
    """Like ``database_of``, for a body at a position in a buffer; a body before v6 has to be translated first."""
    if version < PACKED_NUMBERS:
        raise FormatError("the body of an entry before v6 is not translated")
    if version < LN_FLAGS_FIRST:
        return unpack(data, at)[0]
    # One byte of flags since v12, two since v16, three since v26.
    return unpack(data, at + 1 + (version >= PRIOR_VERSION) + (version >= CREATION_TIMES))[0]
