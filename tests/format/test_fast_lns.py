"""What is read of LNs where they lie, and written without a record, is what the general codec reads and writes."""

from __future__ import annotations

from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.format.codecs import decode_body, encode_body
from engine.format.entry import ln
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import COMMIT, COMMON_LNS, LNS, TRANSACTIONAL, TXN_ENDS
from engine.format.fast.ln import (
    UNCOMMON_FLAGS,
    database_of,
    decode_plain_ln,
    encode_user_ln,
    moved_body,
    plain_data,
    plain_fields,
    replaced_version,
    transaction_of,
)
from engine.format.fast.txn_end import ended_transaction
from engine.format.header import EntryHeader, encode_entry
from engine.format.lsn import NULL_LSN
from engine.format.versions import PRIOR_VERSION
from tests.format.test_codec_properties import lns, txn_ends, versions_of
from tests.support.logs.golden_logs import EXPECTED, VERSIONS, entries, golden_files, read

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
    assert isinstance(decoded, ln.LN)
    assert (decoded.key, decoded.data) == (key, data)
    if tx:
        assert transaction_of(body, 0, 17) == txn
    # Written again elsewhere, with another key that means the same.
    moved = moved_body(body, 17, tx, b"k", lsn, flags2, (size, file))
    plain = record._replace(
        flags=ln.HAS_EXPIRATION if lsn else 0, abort_lsn=-1, txn_id=None, last_lsn=-1, expiration=lsn, key=b"k",
    )  # fmt: skip
    rare = flags & UNCOMMON_FLAGS & ~ln.HAS_EXPIRATION
    assert moved == (None if rare or data is None else encode_body(36, 17, plain))
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


@given(st.data())
def test_lns_of_all_versions(source: st.DataObject) -> None:
    """Whatever the version and the rarity: the same, or left to the codec."""
    number = source.draw(st.sampled_from(sorted(COMMON_LNS)))
    version = source.draw(versions_of(number))
    record = source.draw(lns(version, number))
    assert_read_alike(number, version, encode_body(number, version, record))


@pytest.mark.parametrize("environment", EXPECTED)
def test_golden_logs(environment: str) -> None:
    read_of = 0
    for file in golden_files(environment):
        for entry in entries(read(file.data, number=file.number, is_last=file.is_last)):
            if entry.type_number in COMMON_LNS:
                assert_read_alike(entry.type_number, entry.version, entry.body)
                read_of += 1
            elif entry.type_number in TXN_ENDS:
                found = entry.record()
                assert isinstance(found, TxnEnd)
                assert ended_transaction(b"ab" + entry.body, 2, entry.version) == found.id
                read_of += 1
            elif entry.type_number in LNS:
                found = entry.record()
                assert isinstance(found, ln.LN)
                assert database_of(entry.body, entry.version) == found.db_id
    assert read_of or environment.endswith("/empty") or "je-6" in environment


@given(st.data())
def test_ends_of_all_versions(source: st.DataObject) -> None:
    version = source.draw(st.sampled_from(VERSIONS))
    record = source.draw(txn_ends(version))
    body = encode_body(COMMIT, version, record)
    assert ended_transaction(body, 0, version) == record.id


def assert_read_alike(number: int, version: int, body: bytes) -> None:
    record = decode_body(number, version, body)
    assert isinstance(record, ln.LN)
    tx = number in TRANSACTIONAL
    kind = ln.LNKind(number, tx)
    assert ln.decode_ln(body, version, kind) == record
    if tx:
        assert decode_plain_ln(body, version, kind) == record
        assert transaction_of(b"abc" + body, 3, version) in (record.txn_id, None)
        assert (transaction_of(body, 0, version) is None) == (not 12 <= version <= 18)
    assert database_of(body, version) == record.db_id
    flags, db, txn, length, at = plain_fields(b"xyz" + body, 3, 3 + len(body), version, tx)
    assert (flags == -1) == (not 12 <= version <= 18 or bool(record.flags & UNCOMMON_FLAGS))
    if flags != -1:
        assert (flags, db, txn) == (record.flags | record.flags2 << 8, record.db_id, record.txn_id or 0)
        assert length == (-1 if record.data is None else len(record.data))
        assert body[at - 3 :] == (record.data or b"") + record.key
        if version >= PRIOR_VERSION:
            found = replaced_version(b"xyz" + body, 3, tx)
            assert found == (record.abort_lsn if tx else NULL_LSN, record.prior_file, record.prior_size)
    entry = encode_entry(EntryHeader(0, number, 0, 0, 0, -1), body, version)
    assert plain_data(entry, version, record.db_id) == (None if flags == -1 else record.data)
    rare = ln.HAS_ABORT_KEY | ln.HAS_ABORT_VLSN
    if 16 <= version <= 18 and not record.flags & rare:
        assert encode_user_ln(record) == body
