"""Values of internal databases: each one that real JE wrote survives a round trip (je-log-format.md 10, 11)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import FormatError
from engine.format import tuples
from engine.format.bytecursor import ByteReader, ByteWriter, sorted_pack, sorted_unpack
from engine.format.entry import group_db, internal_db
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import NameLN
from tests.support.logs.reallog import RealLog


class Codec(NamedTuple):
    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]


RANGE = Codec(internal_db.decode_vlsn_range, internal_db.encode_vlsn_range)
BUCKET = Codec(internal_db.decode_vlsn_bucket, internal_db.encode_vlsn_bucket)
RESERVED = Codec(internal_db.decode_reserved_file, internal_db.encode_reserved_file)
EXPIRATION = Codec(internal_db.decode_expiration_profile, internal_db.encode_expiration_profile)
EXTINCTION = Codec(internal_db.decode_extinct_scan, internal_db.encode_extinct_scan)
ERASER = Codec(internal_db.decode_eraser_state, internal_db.encode_eraser_state)
SEQUENCE = Codec(internal_db.decode_sequence, internal_db.encode_sequence)
GROUP = Codec(group_db.decode_group, group_db.encode_group)
NODE = Codec(group_db.decode_group_node, group_db.encode_group_node)
ALL = [RANGE, BUCKET, RESERVED, EXPIRATION, EXTINCTION, ERASER, SEQUENCE, GROUP, NODE]


def codec_of(database: str, key: bytes) -> Codec | None:
    """The codec of a record, after its key has been checked."""
    if database == "_jeVlsnMapDb":
        number = tuples.parse_long_key(key)
        assert tuples.long_key(number) == key
        return RANGE if number == internal_db.RANGE_KEY else BUCKET
    if database == "_jeRepGroupDB":
        text = tuples.parse_string_key(key)
        assert tuples.string_key(text) == key
        return GROUP if text == group_db.GROUP_KEY else NODE
    if database == "_jeReservedFilesDb":
        assert tuples.long_key(tuples.parse_long_key(key)) == key
        return RESERVED
    if database in ("_jeExpiration", "_jeExtinctScansDb"):
        assert sorted_pack(sorted_unpack(key)[0]) == key
        return EXPIRATION if database == "_jeExpiration" else EXTINCTION
    if database == "_jeMetadata":
        assert key == b"eraser"
        return ERASER
    return None


def values(environment: Path) -> Iterator[tuple[Codec, bytes]]:
    """Values of internal databases in a log, with their codecs."""
    log = RealLog(environment)
    names: dict[int, str] = {}
    for lsn in sorted(log.entries):
        ln: object = log.entries[lsn].record()
        if not isinstance(ln, LN):
            continue
        if isinstance(ln.content, NameLN):
            names[ln.content.db_id] = ln.key.decode()
        elif ln.data is not None:
            codec = codec_of(names.get(ln.db_id, ""), ln.key)
            if codec is not None:
                yield codec, ln.data


def test_every_real_value(corpus: Path) -> None:
    met: Counter[str] = Counter()
    for environment in sorted((corpus / "je").glob("**/env")):
        for codec, data in values(environment):
            record = codec.decode(data)
            assert codec.encode(record) == data, (environment, record)
            met[type(record).__name__] += 1
    assert set(met) == {
        "VLSNRangeRecord", "VLSNBucketRecord", "ReservedFile", "ExpirationRecord", "DatabaseExtinction", "EraserState",
        "RepGroup", "GroupNode",
    }  # fmt: skip
    assert min(met.values()) >= 12


def test_real_group(corpus: Path) -> None:
    """The last state of a group of JE 18.3.20, field by field."""
    found = {}
    for codec, data in values(corpus / "je/je-18.3.20/ha-group/node1/env"):
        if codec in (GROUP, NODE):
            record = codec.decode(data)
            found[record.name] = record
    nodes = [record for record in found.values() if isinstance(record, group_db.GroupNode)]
    (group,) = (record for record in found.values() if isinstance(record, group_db.RepGroup))
    assert (group.format_version, group.last_node_id) == (3, 3)
    assert sorted((node.id, node.name, node.host, node.je_version) for node in nodes) == [
        (number, f"node{number}", "localhost", "18.3.20") for number in (1, 2, 3)
    ]
    assert {group_db.NODE_TYPES[node.type] for node in nodes} == {"electable"}
    assert not any(node.removed for node in nodes)


def test_real_sequence(corpus: Path) -> None:
    """A sequence is an ordinary record: that of ``schema-closed`` counts from 100 in steps of its cache of 10."""
    found = []
    for entry in RealLog(corpus / "je/je-18.3.20/schema-closed/env").entries.values():
        ln: object = entry.record()
        if isinstance(ln, LN) and ln.key == b"ticket" and ln.data is not None:
            found.append(internal_db.decode_sequence(ln.data))
            assert internal_db.encode_sequence(found[-1]) == ln.data
    assert found == [internal_db.SequenceData(1, 1, -(2**63), 2**63 - 1, stored) for stored in (100, 110, 120, 130)]


SAMPLES: list[tuple[Codec, Any, str]] = [
    (RANGE, internal_db.VLSNRangeRecord(1, 300, 299, -1), "01 01 78b5 78b4 ff"),
    (
        BUCKET,
        internal_db.VLSNBucketRecord(2, 10, 5, 17, (2 << 32) | 300, (256, 0)),
        "01 00 02 0a 05 11 7cb500000002 02 00000100 00000000",
    ),
    (BUCKET, internal_db.GhostBucketRecord(4, 2 << 32, (2 << 32) | 9), "01 01 04 7c89ffffff01 7c92ffffff01"),
    (RESERVED, internal_db.ReservedFile(0, -1, -1, (5, -258)), "80 ff ff 02 05 888b"),
    (EXPIRATION, internal_db.ExpirationRecord(False, ()), ""),
    (EXPIRATION, internal_db.ExpirationRecord(True, ((5, 100), (7, 20))), "01 05 64 02 14"),
    (
        EXTINCTION,
        internal_db.RecordExtinction(0, True, (3, 9), b"a", None, b"ff", "label", 9, b"k"),
        "00 00 01 02 03 06 0161 00 026666 6c6162656c00 09 016b",
    ),
    (EXTINCTION, internal_db.DatabaseExtinction(0, -258), "01 00 888b"),
    (ERASER, internal_db.EraserState(1, -1, 5, (2, 4), ()), "8000000000000001 7fffffffffffffff 05 02 02 02 00"),
    (SEQUENCE, internal_db.SequenceData(1, 1, -119, 119, 0), "01 01 89 77 00"),
    (
        GROUP,
        group_db.RepGroup("g", -1, 1, 3, 7, 2, "7.5.0"),
        "6700 7fffffffffffffff 8000000000000001 80000003 80000007 80000002 372e352e3000",
    ),
    (
        GROUP,
        group_db.RepGroup(None, 0, 0, 2, 0, 0, None),
        "ff00 8000000000000000 8000000000000000 80000002 80000000 80000000",
    ),
    (
        NODE,
        group_db.GroupNode("n", 1, 3, 3, True, False, "h", 5001, -1, 0, 2, ""),
        "6e00 80000001 83 83 01 00 6800 80001389 7fffffffffffffff 8000000000000000 80000002 00",
    ),
    (
        NODE,
        group_db.GroupNode("n", 1, 2, 1, True, False, "h", 1, 2, 3, 4, None),
        "6e00 80000001 81 01 00 6800 80000001 8000000000000002 8000000000000003 80000004",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("codec", "record", "text"), SAMPLES)
def test_samples(codec: Codec, record: Any, text: str) -> None:
    data = bytes.fromhex(text)
    assert codec.encode(record) == data
    assert codec.decode(data) == record


@pytest.mark.parametrize(("codec", "record", "text"), SAMPLES)
def test_every_cut_and_a_trailing_byte_are_refused(codec: Codec, record: Any, text: str) -> None:
    data = bytes.fromhex(text)
    # An expiration profile cut after a pair is a shorter one.
    for length in range(1, len(data)):
        if codec is EXPIRATION and length % 2:
            if length > 1:
                assert codec.decode(data[:length]).histogram == record.histogram[: length // 2]
            continue
        with pytest.raises(FormatError):
            codec.decode(data[:length])
    if codec is not EXPIRATION:
        with pytest.raises(FormatError):
            codec.decode(data + b"\x00")


@pytest.mark.parametrize("codec", ALL)
@given(data=st.binary(max_size=60))
def test_random_bytes(codec: Codec, data: bytes) -> None:
    """Damaged values give a FormatError or a record, nothing else."""
    try:
        found = codec.decode(data)
    except FormatError:
        return
    assert codec.decode(codec.encode(found)) == found


@pytest.mark.parametrize(
    ("codec", "text", "message"),
    [
        (RANGE, "02 01 01 01 01", "version of a VLSN index record"),
        (BUCKET, "01 02", "truth value"),
        (BUCKET, "01 00 02 00 05 11 05 00", "stride of a VLSN bucket"),
        (BUCKET, "01 00 02 0a 05 11 05 7effffffffffffff", "impossible count"),
        (RESERVED, "80 ff ff 7effffffffffff7f", "impossible count"),
        (EXPIRATION, "01", "without an interval"),
        (EXTINCTION, "02 00", "extinction task"),
        (NODE, "6e00 80000001 83 85", "type of a group member"),
        (NODE, "6e00 80000001 7f", "type of a group member"),
        (GROUP, "6767", "text without its end"),
    ],
)
def test_refusals(codec: Codec, text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        codec.decode(bytes.fromhex(text))


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_long_keys_sort_like_their_numbers(left: int, right: int) -> None:
    assert tuples.parse_long_key(tuples.long_key(left)) == left
    assert (tuples.long_key(left) < tuples.long_key(right)) == (left < right)


@given(st.text(max_size=20))
def test_strings(text: str) -> None:
    data = tuples.string_key(text)
    assert data.count(0) == 1
    assert tuples.parse_string_key(data) == text


def test_scalars() -> None:
    writer = ByteWriter()
    tuples.write_byte(tuples.write_int(tuples.write_long(writer, -5), -(2**31)), -128)
    tuples.write_string(tuples.write_bool(writer, True), None)
    data = writer.getvalue()
    assert data == bytes.fromhex("7ffffffffffffffb 00000000 00 01 ff00")
    reader = ByteReader(data)
    assert (tuples.read_long(reader), tuples.read_int(reader), tuples.read_byte(reader)) == (-5, -(2**31), -128)
    assert tuples.read_bool(reader)
    assert tuples.read_string(reader) is None
    reader.finish()


@pytest.mark.parametrize("key", [b"", b"1234567", b"123456789"])
def test_long_keys_of_another_length(key: bytes) -> None:
    with pytest.raises(FormatError):
        tuples.parse_long_key(key)


@pytest.mark.parametrize("key", [b"", b"a", b"a\x00b", b"\xff\x00"])
def test_keys_that_are_no_text(key: bytes) -> None:
    with pytest.raises(FormatError):
        tuples.parse_string_key(key)


GOOD = internal_db.ReservedFile(0, -1, -1, (5, -258))


@pytest.mark.parametrize(
    ("key", "data", "expected"),
    [
        (tuples.long_key(3), RESERVED.encode(GOOD), GOOD),
        (tuples.long_key(3) + b"\0", RESERVED.encode(GOOD), GOOD),
        (tuples.long_key(3), RESERVED.encode(GOOD) + b"\0\0", GOOD),
        (tuples.long_key(3), bytes.fromhex("80 ff ff ff"), GOOD._replace(db_ids=())),
    ],
    ids=["as written", "a longer key", "longer data", "a negative count"],
)
def test_a_reserved_file_that_je_reads(key: bytes, data: bytes, expected: internal_db.ReservedFile) -> None:
    """JE 18.3.20 and 25.3.17 open environments with such records."""
    assert internal_db.reserved_file_of(key, data) == (3, expected)


@pytest.mark.parametrize(
    ("key", "data"),
    [
        (b"", RESERVED.encode(GOOD)),
        (tuples.long_key(3)[:7], RESERVED.encode(GOOD)),
        (tuples.long_key(3), b""),
        (tuples.long_key(3), b"\x80"),
        (tuples.long_key(3), RESERVED.encode(GOOD)[:-1]),
        (tuples.long_key(3), bytes.fromhex("80 ff ff 7effffffffffff7f")),
    ],
)
def test_a_reserved_file_that_je_does_not_read(key: bytes, data: bytes) -> None:
    """JE 18.3.20 and 25.3.17 refuse to open environments with such records: an index out of bounds."""
    with pytest.raises(FormatError):
        internal_db.reserved_file_of(key, data)
