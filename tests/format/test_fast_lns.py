"""The one-expression encoder of user LNs gives the bytes of the general one."""

from __future__ import annotations

from struct import Struct

from hypothesis import given
from hypothesis import strategies as st

from engine.format.entry import ln
from engine.format.entry_types import decode_body, encode_body
from engine.format.fast.ln import UNCOMMON_FLAGS, encode_user_ln, plain_data, plain_fields, transaction_of

HEADER = Struct("<IBBIi")

ids = st.integers(-(1 << 40), 1 << 40)
blobs = st.binary(max_size=30)


@given(
    st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans(), ids, ids, ids, st.none() | blobs, blobs,
    blobs, st.integers(1, 1 << 20), st.integers(0, 1 << 20),
)  # fmt: skip
def test_same_bytes(
    tx: bool, abort: bool, abort_data: bool, expires: bool, prior: bool, db: int, txn: int, lsn: int,
    data: bytes | None, key: bytes, old: bytes, size: int, file: int,
) -> None:  # fmt: skip
    flags = ln.HAS_ABORT_LSN * (tx and abort) | ln.HAS_ABORT_DATA * (tx and abort_data) | ln.HAS_EXPIRATION * expires
    flags2 = (ln.HAS_PRIOR_SIZE | ln.HAS_PRIOR_FILE) * prior
    record = ln.LN(
        flags, flags2, 0, db, lsn, txn if tx else None, lsn, None, old, -1, 0, 0, 0, size, 0, 0, size, file, None, data,
        None, key, None,
    )  # fmt: skip
    number = 35 if tx else 36
    body = encode_user_ln(record)
    assert body == encode_body(number, 17, record)
    decoded = decode_body(number, 17, body)
    assert (decoded.key, decoded.data) == (key, data)  # type: ignore[attr-defined]
    if tx:
        assert transaction_of(body, 0, 17) == txn
    # The same fields, read where they lie, with other bytes around.
    flags_found, *fields, at = plain_fields(b"x" + body + b"yz", 1, 1 + len(body), 17, tx)
    uncommon = bool(flags & UNCOMMON_FLAGS)
    assert (flags_found == -1) is uncommon
    if not uncommon:
        assert flags_found == flags | flags2 << 8
        assert fields == [db, txn if tx else 0, -1 if data is None else len(data)]
        assert body[at - 1 :] == (data or b"") + key
    header = HEADER.pack(0, number, 0, 0, len(body))
    assert plain_data(header + body, 17, db) == (None if uncommon else data)
    assert plain_data(header + body, 17, db + 1) is None
