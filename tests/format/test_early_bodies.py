"""Bodies of log versions 1 to 5: what was encoded in their layouts is decoded, and what JE wrote is encoded again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import FormatError
from engine.format import entry_types as et
from engine.format.codecs import decode_body, readable_body
from engine.format.describe import describe
from engine.format.entry import ln_content as lc
from engine.format.entry.checkpoint import CkptEnd
from engine.format.entry.db_tree import DatabaseImpl, DbTree
from engine.format.entry.legacy import INDelete, INDupDelete, OldDelta
from engine.format.entry.ln import LN
from engine.format.entry.node import NodeRecord
from engine.format.entry.txn_end import TxnEnd
from engine.format.fast.file_summary import summary_file
from engine.format.header import BAD_TYPE, GOOD, HEADER_BYTES, VERSION_BITS_V6, EntryHeader, encode_entry, examine
from engine.format.lsn import NULL_LSN, file_of, make_lsn, offset_of
from engine.format.vlsn import NULL_VLSN
from engine.log.entry import LogEntry
from tests.format.test_codec_properties import records
from tests.support.environments.early import NAMES, files_of
from tests.support.logs.early_logs import OWN_VERSIONS, TYPES, encode_early
from tests.support.logs.golden_logs import open_bytes
from tests.support.samples import examples

_JAVA_TEXT = b"\xac\xed\x00\x05t"


def i32(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def narrowed(number: int, own: int, record: Any) -> Any:
    """A record of v6 with what the early layout has, and empty values for the rest."""
    if isinstance(record, LN):
        tail = lc.NameOperation(0, None, None) if number in et.NAME_LNS else record.tail
        content = narrowed(number, own, record.content)
        flags = record.flags if number in et.TRANSACTIONAL else 0
        return record._replace(db_id=i32(record.db_id), content=content, tail=tail, flags=flags)
    if isinstance(record, lc.MapLN):
        return record._replace(database=narrowed(number, own, record.database))
    if isinstance(record, lc.NameLN):
        return record._replace(db_id=i32(record.db_id))
    if isinstance(record, lc.DupCountLN):
        return lc.DupCountLN(i32(record.dup_count))
    if isinstance(record, lc.FileSummaryLN) and record.summary is not None:
        summary = record.summary._replace(max_ln_size=0)
        if own < 3:
            summary = summary._replace(obsolete_ln_size=0, obsolete_ln_size_counted=0)
        if summary.obsolete_in_count == -1:
            summary = summary._replace(obsolete_in_count=summary.total_in_count)
        return record._replace(summary=summary, offsets=record.offsets if own else ())
    if isinstance(record, DatabaseImpl):
        first, second = (_comparator(own, one) for one in (record.btree_comparator, record.duplicate_comparator))
        fanout = (i32(record.max_entries), i32(record.max_dup_entries)) if own else (0, 0)
        return record._replace(
            db_id=i32(record.db_id), btree_comparator=first, duplicate_comparator=second, max_entries=fanout[0],
            max_dup_entries=fanout[1], created_at_version=0, utilization=(),
        )  # fmt: skip
    if isinstance(record, DbTree):
        first, second = narrowed(number, own, record.mapping_db), narrowed(number, own, record.naming_db)
        return record._replace(mapping_db=first, naming_db=second, last_replicated_db_id=0, flags=0)
    if isinstance(record, NodeRecord):
        return _node(own, record)
    if isinstance(record, (OldDelta, INDelete, INDupDelete)):
        return record._replace(db_id=i32(record.db_id))
    if isinstance(record, TxnEnd):
        return record._replace(master_id=0)
    if isinstance(record, CkptEnd):
        return record._replace(
            flags=record.flags & 1, last_local_db_id=i32(record.last_local_db_id), last_replicated_node_id=0,
            last_replicated_db_id=0, last_replicated_txn_id=0,
        )  # fmt: skip
    return record


def _comparator(own: int, stored: bytes | None) -> bytes | None:
    if own >= 2 or not stored:
        return stored
    return _JAVA_TEXT + len(stored).to_bytes(2, "big") + stored


def _node(own: int, record: NodeRecord) -> NodeRecord:
    slots = tuple(slot._replace(state=slot.state & 0x0F, data=None, log_size=None) for slot in record.slots)
    previous = record.prev_full_lsn
    if own < 2:
        file = file_of(previous)
        previous = NULL_LSN if own == 0 or file == 0xFFFFFFFF else make_lsn(file, 0)
    return record._replace(
        db_id=i32(record.db_id), flags=record.flags & 1, key_prefix=None, level=i32(record.level), slots=slots,
        prev_full_lsn=previous, max_entries=i32(record.max_entries), base_file=record.base_file if own >= 2 else None,
    )  # fmt: skip


@pytest.mark.parametrize("number", TYPES)
@settings(max_examples=examples(100))
@given(data=st.data())
def test_what_is_encoded_is_decoded(number: int, data: st.DataObject) -> None:
    own = data.draw(st.sampled_from(sorted({*OWN_VERSIONS.get(number, {1: 0}).values()})))
    record = narrowed(number, own, data.draw(records(number, 6)))
    body = encode_early(number, own, record)
    assert decode_body(number, own, body) == record
    assert readable_body(number, 5, own, body)[0] == 6
    # Every byte belongs to a field: one more or one less is an error, which only the reader of fields meets.
    for wrong in (body + b"\0", body[:-1]):
        assert readable_body(number, 5, own, wrong) == (own, wrong)
        with pytest.raises(FormatError, match=et.type_name(number)):
            decode_body(number, own, wrong)


@pytest.mark.parametrize("number", TYPES)
@given(own=st.integers(0, 5), body=st.binary(max_size=200))
def test_no_bytes_raise_another_error(number: int, own: int, body: bytes) -> None:
    try:
        describe(decode_body(number, own, body))
    except FormatError:
        assert readable_body(number, 5, own, body) == (own, body)


@pytest.mark.parametrize(
    ("number", "body"),
    [
        (et.BIN_TYPE, bytes(8) + bytes(4) + b"\0" + b"\xff\xff\xff\x7f" + bytes(40)),
        (et.OLD_DELTA_TYPE, bytes(12) + b"\xff\xff\xff\x7f" + bytes(40)),
        (et.FILE_SUMMARY_LN, bytes(8) + b"\1" + bytes(4) + bytes(40) + bytes(4) + b"\xff\xff\xff\x7f"),
        (et.LN_TYPE, bytes(8) + b"\1" + b"\xff\xff\xff\x7f" + bytes(40)),
    ],
)
def test_a_count_is_checked_before_anything_is_built(number: int, body: bytes) -> None:
    with pytest.raises(FormatError, match=r"impossible count|runs past the end"):
        decode_body(number, 3, body)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("clean")])
def test_entries_of_je_are_encoded_again(name: str) -> None:
    """Byte for byte, so no field of a body is passed over."""
    seen = set()
    for file, data in files_of(name).items():
        with open_bytes(data, number=int(file[:8], 16)) as reader:
            for entry in reader.entries():
                assert isinstance(entry, LogEntry)
                if entry.type_number == et.FILE_HEADER:
                    assert (entry.version, entry.own_version) == (reader.version, reader.version)
                    continue
                start = offset_of(entry.lsn) + HEADER_BYTES
                stored = data[start : start + entry.item_size]
                assert (entry.version, entry.own_version) == (6, entry.flags & VERSION_BITS_V6)
                assert entry.own_version == OWN_VERSIONS.get(entry.type_number, {}).get(reader.version, 0)
                assert encode_early(entry.type_number, entry.own_version, entry.record()) == stored
                assert entry.total_bytes == HEADER_BYTES + len(stored)
                seen.add(entry.type_number)
    assert {et.IN_TYPE, et.BIN_TYPE, et.DB_TREE, et.COMMIT, et.CKPT_START} <= seen
    if "dup-delta" in name:
        assert {et.DIN_TYPE, et.DBIN_TYPE, et.OLD_DELTA_TYPE, et.DEL_DUP_LN_TX} <= seen


@pytest.mark.parametrize(("own", "verdict"), [(0, GOOD), (3, GOOD), (5, GOOD), (6, BAD_TYPE), (17, BAD_TYPE)])
def test_own_version_of_an_entry(own: int, verdict: str) -> None:
    entry = encode_entry(EntryHeader(0, et.TRACE, own, 0, 0, NULL_VLSN), bytes(12), 5)
    assert examine(entry, 0, len(entry), 5, -1, at_end=True).verdict == verdict


def test_keys_of_file_summaries() -> None:
    """Before v3 they are decimal digits; then the file and a sequence in binary."""
    keys = (b"0", b"17", b"1234567890", b"\0\0\0\x11\x7f\xff\xff\xf0", b"12345678901", b"x", b"")
    assert [summary_file(key) for key in keys] == [0, 17, 1234567890, 17, -1, -1, -1]
