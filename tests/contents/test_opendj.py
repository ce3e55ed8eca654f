"""LDAP backends: entries, DNs, id sets, tokens; whatever the bytes."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contents.base import Fields
from engine.contents.ldap_names import LooseNames, dn_of, index_name, parent_key, parse_dn, rdns_of
from engine.contents.opendj import (
    CompressedSchema,
    EncryptedEntry,
    LdapDecoder,
    LdapEntry,
    ber_length,
    compact,
    decode_entry,
    decode_ids,
    encode_entry,
    encode_ids,
    ldif,
    read_ber_length,
    read_compact,
)
from engine.contents.registry import decode
from engine.errors import FormatError

NOTHING = CompressedSchema({}, {})
ALICE = LdapEntry(
    "uid=alice,ou=people,dc=example,dc=com",
    ("top", "person"),
    (("cn", (b"Alice", "Älice".encode())), ("userCertificate;binary", (b"\x00\xff",)), ("entryUUID", (b"5b6e",))),
)
NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=":<"), min_size=1, max_size=12)
ENTRIES = st.builds(
    LdapEntry,
    st.none() | st.text(max_size=40).filter(lambda text: text.isprintable()),
    st.lists(NAMES, max_size=4).map(tuple),
    st.lists(st.tuples(NAMES, st.lists(st.binary(max_size=300), max_size=4).map(tuple)), max_size=5).map(tuple),
)


@given(ENTRIES, st.booleans())
def test_entries_come_back(entry: LdapEntry, deflate: bool) -> None:
    assert decode_entry(encode_entry(entry, deflate=deflate), NOTHING) == entry


def octets(data: bytes) -> bytes:
    return ber_length(len(data)) + data


def test_tokens_stand_for_names() -> None:
    schema = CompressedSchema({b"\x01": "cn", b"\x02": "sn;lang-de"}, {b"\x07": ("top", "person")})
    body = b"\x03" + octets(b"\x07") + octets(b"\x07")
    body += b"\x01" + octets(b"\x01") + b"\x01" + octets(b"Alice") + b"\x01" + octets(b"\x02") + b"\x01" + octets(b"B")
    value = b"\x02\x00" + compact(len(body)) + body
    expected = LdapEntry(None, ("top", "person"), (("cn", (b"Alice",)), ("sn;lang-de", (b"B",))))
    assert decode_entry(value, schema) == expected
    with pytest.raises(FormatError, match="a known token"):
        decode_entry(value, NOTHING)


def test_the_old_form() -> None:
    plain = b"\x01" + octets(b"dc=com") + octets(b"top\0domain") + b"\x01dc\0\x01" + octets(b"com") + b"\x00"
    inner = b"\x02\x01\x00\x04" + octets(plain)
    found = decode_entry(b"\x01\x60" + octets(inner), NOTHING)
    assert found == LdapEntry("dc=com", ("top", "domain"), (("dc", (b"com",)),))


def test_encrypted_entries_stay_closed() -> None:
    value = b"\x02\x03" + compact(300) + b"cipher"
    assert decode_entry(value, NOTHING) == EncryptedEntry(300)
    found = decode(LdapDecoder(NOTHING), "/dc=com/id2entry", (5).to_bytes(8, "big"), value)
    assert found == ({"id": 5}, {"encrypted": True, "length": 300}, False)


@pytest.mark.parametrize("length", [0, 10, 1 << 40])
def test_a_length_of_inflated_bytes_is_a_limit(length: int) -> None:
    import zlib

    value = b"\x02\x01" + compact(length) + zlib.compress(bytes(1 << 20))
    with pytest.raises(FormatError):
        decode_entry(value, NOTHING)


@given(st.binary(max_size=120))
def test_any_bytes_are_an_entry_or_refused(value: bytes) -> None:
    decoder = LdapDecoder(NOTHING)
    for name in ("id2entry", "dn2id", "id2childrencount", "uid.equality", "state"):
        for data in (value, b"\x02\x00" + value, b"\x02\x01" + value):
            found = decode(decoder, f"/dc=com/{name}", value[:8], data)
            assert json.dumps(found.data, ensure_ascii=False).encode("utf-8")
            assert len(json.dumps(found.data)) < 200 * len(data) + 300


@given(st.integers(0, (1 << 56) - 1))
def test_compact_numbers(value: int) -> None:
    assert read_compact(Fields(compact(value))) == value


@given(st.lists(st.integers(0, (1 << 55)), min_size=2, max_size=20))
def test_compact_numbers_keep_the_order(values: list[int]) -> None:
    assert sorted(compact(value) for value in values) == [compact(value) for value in sorted(values)]


@given(st.integers(0, (1 << 32) - 1))
def test_ber_lengths(value: int) -> None:
    assert read_ber_length(Fields(ber_length(value))) == value


@pytest.mark.parametrize(("value", "data"), [(0x7F, "7f"), (0x80, "8080"), (0x3FFF, "bfff"), (0x4000, "c04000")])
def test_compact_numbers_have_these_bytes(value: int, data: str) -> None:
    assert compact(value).hex() == data


@given(st.sets(st.integers(1, 1 << 40), max_size=40))
def test_sets_of_ids(ids: set[int]) -> None:
    assert decode_ids(encode_ids(sorted(ids))) == sorted(ids)


def test_old_sets_of_ids() -> None:
    assert decode_ids(b"".join(number.to_bytes(8, "big") for number in (1, 2, 70_000))) == [1, 2, 70_000]
    assert decode_ids(b"\xff") is None
    assert decode_ids(b"\x80" + bytes(7)) is None
    with pytest.raises(FormatError):
        decode_ids(bytes(9))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("/dc=example,dc=com/id2entry", ("dc=example,dc=com", "id2entry")),
        ("/dc=example,dc=com/ds-sync-hist.ordering", ("dc=example,dc=com", "ds-sync-hist.ordering")),
        ("dc_example_dc_com_id2entry", ("dc_example_dc_com", "id2entry")),
        ("dc_example_dc_com_uid.equality", ("dc_example_dc_com", "uid.equality")),
        ("orders", None), ("/x", None),
    ],
)  # fmt: skip
def test_names_of_databases(name: str, expected: tuple[str, str] | None) -> None:
    assert index_name(name) == expected


def test_dns() -> None:
    assert dn_of("dc=example,dc=com", b"\x00ou=people\x00uid=alice") == "uid=alice,ou=people,dc=example,dc=com"
    assert dn_of("dc=example,dc=com", b"\x00dc=com\x00dc=example\x00ou=people") == "ou=people,dc=example,dc=com"
    assert dn_of("dc=example,dc=com", b"") == "dc=example,dc=com"
    with pytest.raises(FormatError):
        dn_of("dc=com", b"\x00\x00a")


def test_names_of_several_parts_and_with_special_characters() -> None:
    """01 between the parts of an RDN, 02 before such a byte in a value; values are escaped as RFC 4514 says."""
    key = b"\x00ou=a, b+c\x00cn=x\x01uid=y\x00cn=\x02\x00\x02\x02\xff\x00l=#1 "
    assert dn_of("dc=com", key) == r"l=\#1\ ,cn=\00\02\ff,cn=x+uid=y,ou=a\, b\+c,dc=com"
    assert parent_key(key) == key[: key.rindex(b"\x00")]
    assert parent_key(parent_key(key)) == b"\x00ou=a, b+c\x00cn=x\x01uid=y"
    assert (parent_key(b""), parent_key(b"\x00ou=a")) == (b"", b"")
    assert index_name("/o=my%20company%2C%20inc,c=de/dn2id") == (r"o=my company\, inc,c=de", "dn2id")
    for bad in (b"\x00ou", b"\x00=a", b"\x00ou=a\x00", b"\x00\xe4=a"):
        with pytest.raises((FormatError, ValueError)):
            rdns_of(bad)


@pytest.mark.parametrize(
    ("dn", "values"),
    [
        ("uid=a,dc=b", [["a"], ["b"]]), (" uid = a b  , dc=\\20b\\20 ", [["a b"], [" b "]]), ("", []),
        ('cn="a, b"+sn=c;dc=d', [["a, b", "c"], ["d"]]), (r"cn=Lu\C4\8Di\c4\87,dc=x\,y", [["Lučić"], ["x,y"]]),
        ("cn=\\ff\\00", [[b"\xff\x00"]]), ("1.2.3=#0403ff", [["#0403ff"]]),
    ],
)  # fmt: skip
def test_dns_as_text(dn: str, values: list[list[str | bytes]]) -> None:
    assert [[part.value for part in rdn] for rdn in parse_dn(dn)] == values


@pytest.mark.parametrize("dn", ["uid", "uid=a,", "=a", 'uid="a', "uid=a,,dc=b", "ü=a"])
def test_what_is_no_dn(dn: str) -> None:
    with pytest.raises(FormatError):
        parse_dn(dn)


BASE = LooseNames("dc=example,dc=com")


@pytest.mark.parametrize(
    ("key", "dn", "same"),
    [
        (b"", "DC=Example, DC=Com", True),
        (b"\x00ou=people\x00uid=alice", "uid=Alice,ou=People,dc=example,dc=com", True),
        (b"\x00ou=people\x00uid=alice", "userid=ALICE , 2.5.4.11=people,dc=example,dc=com", True),
        (b"\x00ou=people\x00cn=a  b\x01sn=c", r"sn=C+cn=a\20B,ou=people,dc=example,dc=com", True),
        (b"\x00dc=com\x00dc=example\x00ou=people", "ou=people,dc=example,dc=com", True),
        (b"\x00cn=lu\xc4\x8di\xc4\x87", "cn=Lučić,dc=example,dc=com", True),
        (b"\x00cn=---", "cn=- - -,dc=example,dc=com", True),
        (b"\x00ou=people\x00uid=alice", "uid=alice,dc=example,dc=com", False),
        (b"\x00ou=people\x00uid=alice", "uid=alice,ou=staff,dc=example,dc=com", False),
        (b"\x00ou=people\x00uid=alice", "uid=alicia,ou=people,dc=example,dc=com", False),
        (b"\x00ou=people", "ou=people,dc=example,dc=org", False),
    ],
)  # fmt: skip
def test_the_dn_of_an_entry_and_its_key(key: bytes, dn: str, same: bool) -> None:
    assert (BASE.of_key(key) == BASE.of_entry(dn)) is same
    assert BASE.of_key(key) > 0


def test_names_that_cannot_be_compared() -> None:
    """Bytes, values in hex, and what is no DN; of old servers the last RDN alone counts."""
    assert BASE.of_key(b"\x00uid=\xff\x00ou=x") == BASE.of_entry("uid=#04,dc=example,dc=com") == BASE.of_entry("x") == 0
    old = LooseNames("dc_example_dc_com")
    assert old.of_key(b"\x00ou=people\x00uid=alice") == old.of_entry("uid=Alice,ou=elsewhere") > 0
    assert old.of_key(b"") == 0


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=8), min_size=1, max_size=4))
def test_any_name_is_found_again(values: list[str]) -> None:
    """A DN that is written with every byte escaped, and the one that its key stands for, are the same."""
    written = parse_dn(",".join("cn=" + "".join(f"\\{byte:02x}" for byte in value.encode()) for value in values))
    parts = [re.sub(rb"[\0-\2]", lambda found: b"\2" + found[0], value.encode()) for value in reversed(values)]
    assert [value if value.isprintable() else value.encode() for value in values] == [part.value for (part,) in written]
    assert parse_dn(dn_of("dc=com", b"".join(b"\0cn=" + part for part in parts)))[:-1] == written


@given(st.text(max_size=40), st.binary(max_size=40))
def test_any_text_and_bytes_are_names_or_refused(dn: str, key: bytes) -> None:
    for names in (BASE, LooseNames("old")):
        assert names.of_entry(dn) >= 0
        try:
            assert names.of_key(b"\0" + key) >= 0
            assert dn_of("dc=com", key).endswith("dc=com")
        except (FormatError, ValueError):
            pass


@pytest.mark.parametrize("name", ["", "a\n\ndn: cn=x", "a b", "a:", "a\u2028b"])
def test_names_that_would_be_lines_of_their_own(name: str) -> None:
    forged = ALICE._replace(attributes=((name, (b"v",)),))
    with pytest.raises(FormatError, match="LDAP attribute"):
        decode_entry(encode_entry(forged), NOTHING)


def test_ldif() -> None:
    entry = ALICE._replace(attributes=(*ALICE.attributes, ("description", (b"x" * 100, b" padded", b"a\nb"))))
    text = ldif("uid=alice", entry)
    assert text.startswith("dn: uid=alice\nobjectClass: top\nobjectClass: person\ncn: Alice\ncn:: w4RsaWNl\n")
    assert "userCertificate;binary:: AP8=\n" in text
    assert f"description: {'x' * 63}\n {'x' * 37}\n" in text
    assert "description:: IHBhZGRlZA==\ndescription:: YQpi\n" in text
    assert text.endswith("\n\n")
    assert max(map(len, text.splitlines())) == 76


def test_an_entry_as_json() -> None:
    found = decode(LdapDecoder(NOTHING), "/dc=example,dc=com/id2entry", (7).to_bytes(8, "big"), encode_entry(ALICE))
    assert found == (
        {"id": 7},
        {
            "dn": "uid=alice,ou=people,dc=example,dc=com", "objectClass": ["top", "person"], "cn": ["Alice", "Älice"],
            "userCertificate;binary": [{"base64": "AP8="}], "entryUUID": ["5b6e"],
        },
        True,
    )  # fmt: skip
