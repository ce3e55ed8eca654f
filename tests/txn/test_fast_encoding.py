"""The one-expression encoder of user LNs gives the bytes of the general one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.format.entry import ln
from engine.format.entry_types import decode_body, encode_body

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
    body = ln.encode_user_ln(record)
    assert body == encode_body(number, 17, record)
    decoded = decode_body(number, 17, body)
    assert (decoded.key, decoded.data) == (key, data)  # type: ignore[attr-defined]
    if tx:
        assert ln.transaction_of(body, 0, 17) == txn
