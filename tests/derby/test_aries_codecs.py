"""Codecs against arbitrary values and arbitrary bytes: the same bytes back, or a FormatError, never anything else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.derby.format import allocation, btree, codec, container, control, describe, instant, log_file, page, record
from engine.derby.format import row as rows
from engine.derby.format.codec import FieldCursor
from engine.derby.format.operations import registry
from engine.derby.pages import LiveAllocation, LivePage, fresh_page
from engine.errors import FormatError, UsageError
from tests.derby.derby_fixtures import NAMES, files_of, json_of, records_of, sha256


@given(st.integers(0, codec.MAX_CINT))
def test_cint_comes_back_in_the_shortest_form(value: int) -> None:
    out = bytearray()
    codec.put_cint(out, value)
    assert len(out) == (1 if value < 64 else 2 if value < 16384 else 4)
    assert FieldCursor(bytes(out)).cint() == value


@given(st.integers(0, codec.MAX_CLONG))
def test_clong_comes_back_in_the_shortest_form(value: int) -> None:
    out = bytearray()
    codec.put_clong(out, value)
    assert len(out) == (2 if value < 16384 else 4 if value < 2**30 else 8)
    assert FieldCursor(bytes(out)).clong() == value


@pytest.mark.parametrize("value", [-1, 2**31])
def test_cint_refuses_what_does_not_fit(value: int) -> None:
    with pytest.raises(FormatError, match="does not fit"):
        codec.put_cint(bytearray(), value)


@pytest.mark.parametrize("raw", ["4005", "80000005", "80003fff"])
def test_longer_forms_are_refused(raw: str) -> None:
    with pytest.raises(FormatError, match="shortest"):
        FieldCursor(bytes.fromhex(raw)).cint()


def test_five_as_clong_is_two_bytes() -> None:
    out = bytearray()
    codec.put_clong(out, 5)
    assert out.hex() == "0005"


@given(st.binary(max_size=200))
def test_arbitrary_bodies_decode_to_the_same_bytes_or_fail_cleanly(body: bytes) -> None:
    try:
        one = record.decode_body(instant.make(1, 24), body)
    except FormatError:
        return
    assert record.encode(one)[12:-4] == body


@settings(max_examples=400)
@given(st.data())
def test_damaged_records_decode_to_the_same_bytes_or_fail_cleanly(data: st.DataObject) -> None:
    body = bytearray(data.draw(st.sampled_from(_samples())))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        one = record.decode_body(instant.make(1, 24), bytes(body))
    except FormatError:
        return
    assert record.encode(one)[12:-4] == bytes(body)
    try:
        describe.describe(one, rows=True)
    except FormatError:
        return


_cache: list[bytes] = []


def _samples() -> list[bytes]:
    if not _cache:
        seen = set()
        for name in ("crash-ddl", "crash-mixed", "crash-xa-prepared"):
            for one in records_of(name):
                kind = registry.type_of(one.operation).name, one.group, bool(one.data)
                if kind not in seen:
                    seen.add(kind)
                    _cache.append(record.encode(one)[12:-4])
    return _cache


def test_samples_cover_every_operation_of_the_fixtures() -> None:
    names = {registry.type_of(record.decode_body(1, body).operation).name for body in _samples()}
    assert {"Insert", "Purge", "CopyRows", "CompressSpace", "ContainerUndo", "PhysicalUndo", "Checkpoint"} <= names


@pytest.mark.parametrize("name", NAMES)
def test_pages_encode_to_the_same_bytes(name: str) -> None:
    """Every page of every container file: heap, index and allocation pages."""
    pages = 0
    for path, data in files_of(name).items():
        parts = container.number_of(path.rpartition("/")[2])
        if parts is None or parts[0]:
            continue
        header = container.header_in(data)
        assert container.encode_header(header) == data[109:189]
        for start in range(0, len(data), header.page_size):
            image = data[start : start + header.page_size]
            if image[1] == page.ALLOCATION:
                assert allocation.encode(allocation.decode(image), header.page_size) == image
            else:
                assert page.encode(page.decode(image), header.page_size) == image
            pages += 1
    assert pages > 100


@pytest.mark.parametrize("name", NAMES)
def test_rows_on_pages_encode_to_the_same_bytes(name: str) -> None:
    count = 0
    for path, data in files_of(name).items():
        if not path.startswith("seg0/c"):
            continue
        size = container.header_in(data).page_size
        for start in range(size, len(data), size):
            image = data[start : start + size]
            if image[1] != page.STORED:
                continue
            for stored in page.decode(image).rows:
                assert rows.encode_row(rows.decode_row(stored.record)) == stored.record
                count += 1
    assert count > 1000


@pytest.mark.parametrize("name", NAMES)
def test_pages_that_recovery_leaves_alone_equal_the_recorded_ones(name: str) -> None:
    """Pages of pages-after-recovery.json whose version is on disk already."""
    for file, expected in json_of(name, "pages-after-recovery.json").items():
        data = files_of(name).get(f"seg0/{file}")
        if expected == "removed" or data is None or "pages" not in expected:
            continue
        size = container.header_in(data).page_size
        for number, wanted in expected["pages"].items():
            image = data[int(number) * size : (int(number) + 1) * size]
            if len(image) == size and image[1] == 117:
                decoded = page.decode(image)
                if decoded.header.version == wanted["version"]:
                    assert page_digest(decoded) == wanted["sha256"]


def page_digest(decoded: page.StoredPage) -> str:
    """The digest of the fixtures: record length, reserved bytes and the record, slot by slot."""
    return sha256(
        b"".join(len(r.record).to_bytes(2, "big") + len(r.slack).to_bytes(2, "big") + r.record for r in decoded.rows)
    )


@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_no_page(data: bytes) -> None:
    for decode in (page.decode, page.decode_unchecked, allocation.decode, container.header_in, rows.decode_row):
        try:
            decode(data)
        except FormatError:
            continue


@given(st.binary(max_size=80))
def test_arbitrary_bytes_are_no_index_descriptor(data: bytes) -> None:
    for decode in (btree.decode_descriptor, control.decode, log_file.decode, container.decode_header):
        try:
            decode(data)
        except FormatError:
            continue


def test_damaged_slot_table_is_refused() -> None:
    data = bytearray(files_of("crash-mixed")["seg0/c490.dat"][4096:8192])
    data[-12] ^= 0xFF
    with pytest.raises(FormatError, match="checksum"):
        page.decode(bytes(data))
    with pytest.raises(FormatError, match=r"slot|overlap"):
        page.decode(page.sealed(data))


@pytest.mark.parametrize(("number", "columns", "unique"), [(0x4A1, 2, 2), (0x71, 3, 2)])
def test_index_root_names_its_unique_columns(number: int, columns: int, unique: int) -> None:
    """The table's own index allows duplicates; the catalogue's index on name and schema is unique."""
    root = page.decode(files_of("crash-five-transactions")[f"seg0/c{number:x}.dat"][4096:8192])
    found = btree.control_row(rows.decode_row(root.rows[0].record))
    assert found is not None
    assert (found.kind, found.left, found.right, found.is_root) == (btree.LEAF, -1, -1, True)
    assert found.descriptor is not None
    descriptor = btree.decode_descriptor(found.descriptor)
    assert (descriptor.container, descriptor.columns, descriptor.unique_columns) == (number, columns, unique)


@given(st.integers(1, instant.MAX_FILE), st.integers(24, instant.MAX_POSITION))
def test_instants_print_and_parse(file: int, position: int) -> None:
    value = instant.make(file, position)
    assert instant.parse(instant.show(value)) == value
    assert (instant.file_of(value), instant.position_of(value)) == (file, position)


@pytest.mark.parametrize("text", ["", "41725", "(1,2)x", "0x1/0x2", "(99999999999,1)", "(1,-2)", "(2147483648,5)"])
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a log instant"):
        instant.parse(text)


@given(st.integers(0, 2**62), st.integers(0, 20), st.integers(0, 255))
def test_control_file_comes_back(checkpoint: int, minor: int, flags: int) -> None:
    value = control.Control(checkpoint, 10, minor, -1, flags)
    data = control.encode(value)
    assert len(data) == 48
    assert control.decode(data) == value


def test_control_file_of_the_fixture_encodes_to_its_bytes() -> None:
    data = files_of("crash-five-transactions")["log/log.ctrl"]
    assert control.encode(control.decode(data)) == data
    for at in range(40):
        damaged = bytearray(data)
        damaged[at] ^= 1
        with pytest.raises(FormatError, match="checksum"):
            control.decode(bytes(damaged))


def test_bit_sets_grow_and_shrink() -> None:
    bits = allocation.BitSet(8, b"\xff").resized(16)
    assert bits == allocation.BitSet(16, b"\xff\x00")
    assert bits.resized(3) == allocation.BitSet(3, b"\xe0")
    assert not bits.get(100)
    with pytest.raises(FormatError, match="outside"):
        bits.with_bit(16, True)


def test_capacity_of_an_allocation_page() -> None:
    """derby-log-format.md 14: 10 216 pages for 4096 bytes."""
    assert allocation.maximum_pages(4096, 80) == 10216


@pytest.mark.parametrize("allocated", [-1, (1 << 31) - 1])
def test_an_allocation_page_counts_no_more_than_it_manages(allocated: int) -> None:
    made = fresh_page(page.ALLOCATION, 0, 4096, 12, container.HEADER_SIZE)
    assert isinstance(made, LiveAllocation)
    wrong = made.content._replace(extent=made.content.extent._replace(allocated=allocated))
    with pytest.raises(FormatError, match="allocated more pages"):
        allocation.decode(allocation.encode(wrong, 4096))


@pytest.mark.parametrize("reserved", [-1, 4097, (1 << 31) - 1])
def test_a_reserve_is_no_more_than_a_page(reserved: int) -> None:
    made = fresh_page(page.STORED, 1, 4096, 12, 0)
    assert isinstance(made, LivePage)
    with pytest.raises(FormatError, match="impossible reserve"):
        made.reserve(0, reserved)
