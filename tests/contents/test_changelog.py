"""Blocks and records of OpenDJ's replication changelog; whatever the bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.changelog.updates import is_numbered, is_update, update_of
from engine.contents.changelog_blocks import BLOCK, FramedFile, WrongPointer, frame_records, framed, tail_recovery
from engine.contents.changelog_updates import (
    ADD,
    DELETE,
    ENCRYPTED,
    GENERIC,
    MODIFY,
    MODIFY_DN,
    OFFLINE,
    Csn,
    NumberedChange,
    ReplicaUpdate,
    attributes_of,
    decode_numbered,
    decode_update,
    encode_numbered,
    encode_update,
    has_readable_content,
    modifications_of,
    parse_csn,
)
from engine.contents.ldap_attributes import (
    MODIFICATIONS,
    LdapAttribute,
    LdapModification,
    decode_attributes,
    decode_modifications,
    encode_attributes,
    encode_modifications,
)
from engine.errors import FormatError
from tests.support.environments.ldap_changelogs import csn_of, update_records
from tests.support.harness import REPOSITORY

GOLDEN = REPOSITORY / "tests/golden/opendj-changelog"
# Sizes around a block and its parts, where lengths and records end at borders.
SIZES = st.sampled_from([1, 2, 3, 244, 247, 248, 249, 251, 252, 253, 256, 260, 1000]) | st.integers(1, 700)
RECORDS = st.lists(SIZES.map(lambda size: b"r" * size), max_size=12)
CSNS = st.builds(
    Csn, time_ms=st.integers(0, (1 << 63) - 1), sequence=st.integers(0, (1 << 31) - 1), server=st.integers(0, 65535)
)
TEXTS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=30)


@given(RECORDS)
def test_records_come_back(records: list[bytes]) -> None:
    data = frame_records(records)
    found = framed(data, bool)
    assert [one.data for one in found.records] == records
    assert (found.damaged, found.pointers, found.tail) == ([], [], None)
    assert [one.at for one in found.records[1:]] == [one.end for one in found.records[:-1]]
    assert [one.end for one in found.records[-1:]] == [len(data)] * bool(records)


def test_the_layout_by_hand() -> None:
    """A record over two borders, and one that begins at the third."""
    data = frame_records([b"a" * (3 * BLOCK - 2 * 4 - 4), b"b"])
    assert data[:5] == b"\0\0\2\xf4a"
    assert [data[at : at + 4] for at in (BLOCK, 2 * BLOCK, 3 * BLOCK)] == [b"\0\0\1\0", b"\0\0\2\0", b"\0\0\0\0"]
    assert data[3 * BLOCK + 4 :] == b"\0\0\0\1b"


@given(RECORDS.filter(bool), st.data())
def test_a_cut_file_keeps_the_whole_records(records: list[bytes], data: st.DataObject) -> None:
    whole = frame_records(records)
    length = data.draw(st.integers(0, len(whole)))
    found = framed(whole[:length], bool)
    ends = [one.end for one in framed(whole, bool).records]
    kept = sum(end <= length for end in ends)
    assert [one.data for one in found.records] == records[:kept]
    assert (found.tail is None) == (length in (0, *ends))
    assert found.tail is None or (found.tail.at, found.tail.end) == ((0, *ends)[kept], length)


@given(st.binary(max_size=2000))
def test_any_bytes_are_divided(data: bytes) -> None:
    found = framed(data, is_update)
    places = sorted([*((one.at, one.end) for one in found.records), *((one.at, one.end) for one in found.damaged)])
    if found.tail is not None:
        places.append((found.tail.at, found.tail.end))
    assert [end for _, end in places[:-1]] == [start for start, _ in places[1:]]
    assert (places[0][0], places[-1][1]) == (0, len(data)) if places else not data
    assert tail_recovery(data, is_update).cut_at in (None, *range(len(data)))


def test_records_after_a_destroyed_length_are_found() -> None:
    records = update_records(range(10), 7)
    data = bytearray(frame_records(records))
    third = framed(bytes(data), is_update).records[3].at
    data[third : third + 4] = b"\x7f\xff\xff\xff"
    found = framed(bytes(data), is_update)
    assert [(one.at, one.length) for one in found.damaged] == [(third, 0x7FFFFFFF)]
    assert [one.data for one in found.records[:3]] == records[:3]
    assert found.records[-1].data == records[-1]
    assert found.tail is None


def test_forged_pointers_cost_no_more_than_the_file_allows() -> None:
    """Every pointer leads to a place from which a record seems to reach to the end of the file."""
    blocks = 4000
    length = BLOCK * (blocks // 2)
    block = length.to_bytes(4, "big") * (BLOCK // 4 - 1)
    data = b"\x7f" * BLOCK + (b"\0\0\0\0" + block) * blocks
    tried: list[int] = []

    def refused(record: bytes) -> bool:
        tried.append(len(record))
        return False

    found = framed(data, refused)
    assert found.tail is not None
    assert sum(tried) < 20 * len(data)


def test_a_wrong_pointer_is_found() -> None:
    data = bytearray(frame_records([b"x" * 600]))
    data[BLOCK + 3] ^= 1
    found = framed(bytes(data), bool)
    assert found.pointers == [WrongPointer(at=BLOCK, expected=BLOCK, found=BLOCK + 1)]
    assert [one.data for one in found.records] == [b"x" * 600]


def outcome(data: bytes) -> str:
    found = tail_recovery(data, is_update)
    if not found.opens:
        return "refused"
    return "opens" if found.cut_at is None else f"cut {found.cut_at}"


def test_recovery_is_that_of_the_server() -> None:
    """What OpenDJ's own LogFile did with every prefix of a log, and with zero bytes after it."""
    expected: dict[str, Any] = json.loads((GOLDEN / "recovery.json").read_text())
    log = (GOLDEN / expected["log"]).read_bytes()[: expected["bytes"]]
    assert {text for _, _, text in expected["cut"]} > {"opens", "refused"}
    for first, last, text in expected["cut"]:
        assert {outcome(log[:length]) for length in range(first, last + 1)} == {text}, (first, last)
    for count, text in expected["zeros"]:
        assert outcome(log + bytes(count)) == text, count


def test_files_of_the_server() -> None:
    """The server's own writer divided and named these files."""
    for server, numbers in ((7, range(0, 24, 2)), (22, range(1, 25, 2))):
        directory = GOLDEN / f"1.dom/{server}.server"
        files = sorted(directory.iterdir())
        found = [framed(file.read_bytes(), is_update) for file in files]
        assert [one.data for file in found for one in file.records] == update_records(numbers, server)
        for file, one in zip(files, found, strict=True):
            assert file.read_bytes() == frame_records(record.data for record in one.records)
            assert file.name in ("head.log", f"{csn_at(one, 0)}_{csn_at(one, -1)}.log")


def csn_at(file: FramedFile, at: int) -> Csn | None:
    update = update_of(file.records[at].data)
    return None if update is None else update.csn


def test_a_cut_inside_a_record_names_the_record() -> None:
    data = frame_records(update_records(range(6), 9))
    crossing = next(one for one in reversed(framed(data, is_update).records) if one.at // BLOCK < one.end // BLOCK)
    border = crossing.end // BLOCK * BLOCK
    found = tail_recovery(data[: border + 4], is_update)
    assert (found.opens, found.cut_at, found.inside) == (True, border, crossing.at)
    whole = tail_recovery(data[: crossing.at + 1], is_update)
    assert whole.cut_at is not None
    assert whole.cut_at <= crossing.at


UPDATES = st.builds(
    ReplicaUpdate,
    kind=st.sampled_from([ADD, DELETE, MODIFY, MODIFY_DN]),
    csn=CSNS,
    dn=TEXTS | st.none(),
    uuid=TEXTS | st.none(),
)
NAMES = st.text("abcXYZ019.-;_", min_size=1, max_size=30)
ATTRIBUTES = st.builds(LdapAttribute, name=NAMES, values=st.lists(st.binary(max_size=200), max_size=3).map(tuple))
CHANGES = st.builds(LdapModification, kind=st.sampled_from(MODIFICATIONS), attribute=ATTRIBUTES)


@given(UPDATES, st.binary(max_size=300))
def test_updates_come_back(update: ReplicaUpdate, content: bytes) -> None:
    found = decode_update(encode_update(replace(update, content=content)))
    assert (found.kind, found.csn, found.dn, found.uuid) == (update.kind, update.csn, update.dn, update.uuid)
    assert found.content == (b"" if update.kind == DELETE else content)


@given(st.lists(ATTRIBUTES, max_size=4), st.lists(CHANGES, max_size=4))
def test_attributes_and_modifications_come_back(
    attributes: list[LdapAttribute], changes: list[LdapModification]
) -> None:
    added = ReplicaUpdate(kind=ADD, csn=csn_of(1, 7), content=encode_attributes(attributes))
    assert attributes_of(decode_update(encode_update(added))) == tuple(attributes)
    assert modifications_of(added) == ()
    for kind in (MODIFY, MODIFY_DN):
        changed = ReplicaUpdate(kind=kind, csn=csn_of(1, 7), content=encode_modifications(changes))
        assert modifications_of(decode_update(encode_update(changed))) == tuple(changes)
        assert attributes_of(changed) == ()
        assert has_readable_content(changed)


def test_attributes_by_hand() -> None:
    """The bytes that RFC 4511 prescribes; a value of 200 bytes has a length of two."""
    name, short = bytes.fromhex("0402636e"), bytes.fromhex("0403616263")
    attribute = b"\x30\x0b" + name + b"\x31\x05" + short
    assert decode_attributes(attribute) == (LdapAttribute(name="cn", values=(b"abc",)),)
    long = b"\x30\x81\xd5" + name[:3] + b"n" + b"\x31\x81\xcb" + b"\x04\x81\xc8" + b"v" * 200
    with pytest.raises(FormatError):
        decode_attributes(long)
    long = b"\x30\x81\xd2" + name + b"\x31\x81\xcb" + b"\x04\x81\xc8" + b"v" * 200
    assert decode_attributes(long) == (LdapAttribute(name="cn", values=(b"v" * 200,)),)
    assert encode_attributes(decode_attributes(long)) == long
    replaced = b"\x30\x10\x0a\x01\x02" + attribute
    assert decode_modifications(replaced) == (
        LdapModification(kind="replace", attribute=LdapAttribute(name="cn", values=(b"abc",))),
    )


@given(st.binary(max_size=60))
def test_any_bytes_are_attributes_or_an_error(content: bytes) -> None:
    for kind in (ADD, MODIFY):
        update = ReplicaUpdate(kind=kind, csn=csn_of(1, 7), content=content)
        if has_readable_content(update):
            attributes = attributes_of(update) + tuple(one.attribute for one in modifications_of(update))
            assert sum(len(value) for one in attributes for value in one.values) < max(len(content), 1)


@pytest.mark.parametrize(
    "content",
    [
        b"\x30",
        b"\x30\x05ab",
        b"\x31\0",
        b"\x30\0",
        b"\x30\x04\x04\0\x31\0",
        b"\x30\x84\xff\xff\xff\xff",
        b"\x30\x85\0\0\0\0\1a",
    ],
)
def test_what_is_no_attribute(content: bytes) -> None:
    assert not has_readable_content(ReplicaUpdate(kind=ADD, csn=csn_of(1, 7), content=content))
    assert not has_readable_content(ReplicaUpdate(kind=MODIFY, csn=csn_of(1, 7), content=content))


def test_a_modification_of_no_kind() -> None:
    content = encode_modifications([LdapModification(kind="add", attribute=LdapAttribute(name="cn", values=()))])
    with pytest.raises(FormatError, match="LDAP modification"):
        decode_modifications(content.replace(b"\x0a\1\0", b"\x0a\1\4"))


def test_a_change_of_the_dn() -> None:
    moved = ReplicaUpdate(
        kind=MODIFY_DN, csn=csn_of(1, 7), dn="cn=a", uuid="u", parent_uuid="p", new_rdn="cn=b", new_superior="o=c",
        deletes_old_rdn=True,
    )  # fmt: skip
    assert decode_update(encode_update(moved)) == moved


@given(CSNS, st.binary(max_size=50))
def test_updates_without_an_entry_come_back(csn: Csn, content: bytes) -> None:
    generic = decode_update(encode_update(ReplicaUpdate(kind=GENERIC, csn=csn, content=content)))
    assert (generic.kind, generic.csn, generic.content) == (GENERIC, csn, content)
    assert decode_update(encode_update(ReplicaUpdate(kind=OFFLINE, csn=csn))).csn == csn
    hidden = decode_update(encode_update(ReplicaUpdate(kind=ENCRYPTED, csn=None, content=content)))
    assert (hidden.kind, hidden.csn, hidden.content) == (ENCRYPTED, None, content)


MESSAGES = [line.split() for line in (GOLDEN / "messages.txt").read_text().splitlines()]
CLASSES = {
    "ModifyMsg": (MODIFY, 4),
    "AddMsg": (ADD, 4),
    "DeleteMsg": (DELETE, 0),
    "ModifyDNMsg": (MODIFY_DN, 4),
    "UpdateMsg": (GENERIC, 4),
    "ReplicaOfflineMsg": (OFFLINE, 0),
}


@pytest.mark.parametrize(("name", "version", "digits"), MESSAGES, ids=lambda one: one[:20])
def test_messages_of_the_server(name: str, version: str, digits: str) -> None:
    """OpenDJ's own classes made them; of the latest version our encoder makes the same bytes."""
    kind, size = CLASSES[name]
    found = decode_update(bytes.fromhex(digits))
    assert (found.kind, found.csn, str(found.version)) == (kind, Csn(1_700_000_000_000, 5, 7), version)
    if kind not in (GENERIC, OFFLINE):
        assert (found.dn, found.uuid) == ("uid=a,dc=example,dc=com", "u-1")
        assert found.parent_uuid == {ADD: "p-1", MODIFY_DN: "p-2"}.get(kind)
    if kind == MODIFY_DN:
        assert (found.new_rdn, found.new_superior) == ("uid=b", "o=x")
    if kind == DELETE:
        assert found.subtree == (version in ("1", "3") or digits.endswith("01"))
    # Version 1 has no modifications beside a change of the DN.
    assert len(found.content) == (0 if (kind, version) == (MODIFY_DN, "1") else size)
    if version == "8":
        assert encode_update(found) == bytes.fromhex(digits)


def test_the_first_protocol_has_types_of_its_own() -> None:
    csn = csn_of(1, 7)
    head = str(csn).encode() + b"\0\1" + b"o=x\0" + b"u-1\0"
    kinds = {1: (MODIFY, b"mods"), 2: (ADD, b"parent\0attrs"), 3: (DELETE, b""), 4: (MODIFY_DN, b"cn=b\0\0\0\1")}
    for number, (kind, rest) in kinds.items():
        found = decode_update(bytes((number,)) + head + rest)
        assert (found.kind, found.csn, found.version, found.dn, found.uuid) == (kind, csn, 1, "o=x", "u-1")


@given(st.binary(max_size=300) | st.binary(max_size=200).map(lambda rest: b"\x17\x08" + rest))
def test_any_bytes_are_an_update_or_refused(data: bytes) -> None:
    """No other error, whatever the bytes."""
    assert is_update(data) in (True, False)
    assert is_numbered(data) in (True, False)


@given(CSNS, st.integers(0, (1 << 63) - 1), TEXTS)
def test_csns_and_numbered_changes_come_back(csn: Csn, number: int, dn: str) -> None:
    assert parse_csn(str(csn)) == csn
    one = NumberedChange(number=number, dn=dn, csn=csn)
    assert decode_numbered(encode_numbered(one)) == one


@pytest.mark.parametrize("text", ["", "0" * 27, "0" * 29, "f" * 28, "0" * 20 + "80000000", "x" * 28, "0x" + "0" * 26])
def test_what_is_no_csn_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        parse_csn(text)
