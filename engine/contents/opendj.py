"""LDAP backends of the OpenDJ family: entries, DNs, indexes (embedders.md 1).

A backend is one environment. Each base DN has a database for every index, such as ``/dc=example,dc=com/id2entry``;
servers before 4.x name it ``dc_example_dc_com_id2entry``. A server that compresses its schema replaces names of
attributes and sets of object classes by tokens; two databases hold their meanings.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from engine.contents.base import Allowance, DecodedRecord, Fields, Json, Source, hexed, unknown
from engine.contents.ldap_names import (
    CHILDREN_COUNT,
    DN2ID,
    ID2ENTRY,
    OLD_REFERRAL,
    REFERRAL,
    STATE,
    IndexName,
    dn_of,
    index_name,
)
from engine.errors import FormatError, plural

ATTRIBUTES: Final = "compressed_schema/compressed_attributes"
CLASSES: Final = "compressed_schema/compressed_object_classes"
_MOST_TOKENS: Final = 100_000
# The largest accepted entry. No directory entry is larger, but damaged bytes may state any length.
_LARGEST_ENTRY: Final = 64 << 20
# Attributes, values and object classes allowed per byte of a record; a deflated group of a million members needs 1 per
# 5 bytes.
_MOST_ITEMS: Final = 4
_DEFLATED: Final = 1
_ENCRYPTED: Final = 2
_WITHOUT_DN: Final = 1
_TOKENS_OF_ATTRIBUTES: Final = 2
_TOKENS_OF_CLASSES: Final = 4
_OVER_LIMIT: Final = 0xFF
_ASN1_TREE_ENTRY: Final = 0x60
_ASN1_SEQUENCE: Final = 0x30
_ASN1_OCTETS: Final = 0x04
_ASN1_INTEGER: Final = 0x02
ID_BYTES: Final = 8


class LdapEntry(NamedTuple):
    """An entry.

    Attributes:
        dn: the DN of the entry; None if the server does not store the DN with the entry.
        object_classes: in their order.
        attributes: pairs of attribute description (name and options) and values, user attributes first.
    """

    dn: str | None
    object_classes: tuple[str, ...]
    attributes: tuple[tuple[str, tuple[bytes, ...]], ...]


class EncryptedEntry(NamedTuple):
    """An encrypted entry; only its length is known."""

    length: int


@dataclass(frozen=True, slots=True)
class CompressedSchema:
    """Meanings of tokens: descriptions of attributes, and sets of object classes."""

    attributes: Mapping[bytes, str]
    classes: Mapping[bytes, tuple[str, ...]]


def read_ber_length(fields: Fields) -> int:
    """A BER length. A length below 128 is one byte; for others the first byte has the high bit set and the number of
    bytes that follow.
    """
    first = fields.number(1, signed=False)
    if first < 0x80:
        return first
    count = first & 0x7F
    if not 1 <= count <= 4:
        raise FormatError("BER length", expected="1 to 4 bytes", found=str(count))
    return fields.number(count, signed=False)


def ber_length(value: int) -> bytes:
    """Encode a BER length in its shortest form."""
    if value < 0x80:
        return bytes((value,))
    size = (value.bit_length() + 7) // 8
    return bytes((0x80 | size,)) + value.to_bytes(size, "big")


def read_compact(fields: Fields) -> int:
    """A compact number: the number of leading 1 bits in the first byte is the number of bytes that follow; each byte
    adds 7 bits.
    """
    first = fields.number(1, signed=False)
    more = next((count for count in range(8) if not first & 0x80 >> count), -1)
    if more < 0:
        raise FormatError("compact number", expected="a first byte below 0xff", found="0xff")
    return (first & 0x7F >> more) << 8 * more | fields.number(more, signed=False)


def compact(value: int) -> bytes:
    """Encode a compact number in its shortest form."""
    size = max((value.bit_length() + 6) // 7, 1)
    return (((0xFF << (9 - size)) & 0xFF) << 8 * (size - 1) | value).to_bytes(size, "big")


def decode_entry(value: bytes, schema: CompressedSchema) -> LdapEntry | EncryptedEntry:
    """An entry of ``id2entry``.

    Raises:
        FormatError: the bytes are not an entry, or have an unknown token. ValueError: a text in the entry is not UTF-8.
    """
    fields = Fields(value)
    version, items = fields.number(1), Allowance(len(value), _MOST_ITEMS)
    if version == 1:
        return _plain(_old_form(fields), schema, items)
    if version != 2:
        raise FormatError("LDAP entry", expected="version 1 or 2", found=str(version))
    flags, length = fields.number(1, signed=False), read_compact(fields)
    if flags & _ENCRYPTED:
        return EncryptedEntry(length)
    rest = fields.rest()
    return _plain(_inflated(rest, length) if flags & _DEFLATED else rest[:length], schema, items)


def _old_form(fields: Fields) -> bytes:
    """Two ASN.1 fields: the length before compression (0 if not compressed), and the bytes."""
    _expect(fields, _ASN1_TREE_ENTRY)
    _expect(fields, _ASN1_INTEGER, whole=False)
    size = fields.number(read_ber_length(fields), signed=False)
    _expect(fields, _ASN1_OCTETS, whole=False)
    data = fields.raw(read_ber_length(fields))
    return _inflated(data, size) if size else data


def _expect(fields: Fields, tag: int, *, whole: bool = True) -> None:
    found = fields.number(1, signed=False)
    if found != tag:
        raise FormatError("ASN.1", expected=f"tag {tag:#04x}", found=f"{found:#04x}")
    if whole:
        read_ber_length(fields)


def _inflated(data: bytes, length: int) -> bytes:
    if length > _LARGEST_ENTRY:
        raise FormatError("LDAP entry", expected=f"{_LARGEST_ENTRY} bytes at most", found=str(length))
    try:
        # Inflate at most one byte more than the stated length: a small value must not expand without limit.
        found = zlib.decompressobj().decompress(data, length + 1)
    except zlib.error as error:
        raise FormatError("deflated LDAP entry", expected="zlib", found=str(error)) from error
    if len(found) != length:
        raise FormatError("deflated LDAP entry", expected=plural(length, "byte"), found=str(len(found)))
    return found


def _plain(data: bytes, schema: CompressedSchema, items: Allowance) -> LdapEntry:
    fields = Fields(data)
    version = fields.number(1)
    if version not in (1, 2, 3):
        raise FormatError("LDAP entry", expected="version 1 to 3 of the plain form", found=str(version))
    config = 0
    if version > 1:
        config = int.from_bytes(fields.raw(read_ber_length(fields))[:1], "big")
    dn = None
    if not config & _WITHOUT_DN:
        dn = fields.text(read_ber_length(fields))
    classes = fields.raw(read_ber_length(fields))
    items.spend(classes.count(0))
    if config & _TOKENS_OF_CLASSES:
        names = schema.classes.get(classes)
        if names is None:
            raise FormatError("object classes of an LDAP entry", expected="a known token", found=classes.hex())
    else:
        names = tuple(classes.decode("utf-8").split("\0")) if classes else ()
    attributes = [one for _ in range(2) for one in _attributes(fields, config, schema, items)]
    return LdapEntry(dn, names, tuple(attributes))


def _attributes(
    fields: Fields, config: int, schema: CompressedSchema, items: Allowance
) -> Iterator[tuple[str, tuple[bytes, ...]]]:
    for _ in range(_counted(fields, items)):
        if config & _TOKENS_OF_ATTRIBUTES:
            token = fields.raw(read_ber_length(fields))
            name = schema.attributes.get(token)
            if name is None:
                raise FormatError("attribute of an LDAP entry", expected="a known token", found=token.hex())
        else:
            name = fields.until(0).decode("utf-8")
        require_description(name)
        yield name, tuple(fields.raw(read_ber_length(fields)) for _ in range(_counted(fields, items)))


def require_description(name: str) -> None:
    """Check the description of an attribute, its name and options, from untrusted bytes.

    Raises:
        FormatError: it is empty, or has characters that could pass for other lines in LDIF.
    """
    if not name or not name.isprintable() or set(name) & _NOT_IN_DESCRIPTIONS:
        raise FormatError("LDAP attribute", expected="a description", found=ascii(name[:40]))


def _counted(fields: Fields, items: Allowance) -> int:
    """A count of elements that take at least a byte each."""
    count = read_ber_length(fields)
    items.spend(count)
    if count > fields.left:
        raise FormatError("LDAP entry", expected=plural(count, "item"), found=plural(fields.left, "byte"))
    return count


def encode_entry(entry: LdapEntry, *, deflate: bool = False) -> bytes:
    """Encode an entry with names instead of tokens, in the form of newer servers; for tests and examples."""
    body = bytearray(b"\x03\x01" + bytes((_WITHOUT_DN if entry.dn is None else 0,)))
    if entry.dn is not None:
        body += _octets(entry.dn.encode())
    body += _octets("\0".join(entry.object_classes).encode())
    body += ber_length(len(entry.attributes))
    for name, values in entry.attributes:
        body += name.encode() + b"\0" + ber_length(len(values)) + b"".join(_octets(value) for value in values)
    body += ber_length(0)
    data = zlib.compress(bytes(body)) if deflate else bytes(body)
    return bytes((2, _DEFLATED if deflate else 0)) + compact(len(body)) + data


def _octets(data: bytes) -> bytes:
    return ber_length(len(data)) + data


def decode_ids(value: bytes) -> list[int] | None:
    """The ids of an index entry; None if the index gave up listing them (over its limit).

    The two forms cannot always be distinguished: 8 bytes for each id (the first bit set: over the limit), or a compact
    count and compact differences. Bytes that are valid in the newer form are read as that form.

    Raises:
        FormatError: the bytes are neither a list of ids nor the mark of an index over its limit.
    """
    if not value:
        return []
    if value[0] == _OVER_LIMIT:
        return None
    try:
        return _differences(value)
    except FormatError:
        pass
    if value[0] & 0x80:
        return None
    if len(value) % ID_BYTES:
        raise FormatError("set of entry ids", expected=f"{ID_BYTES} bytes for each", found=plural(len(value), "byte"))
    return [int.from_bytes(value[at : at + ID_BYTES], "big") for at in range(0, len(value), ID_BYTES)]


def _differences(value: bytes) -> list[int]:
    fields, found, last = Fields(value), [], 0
    count = read_compact(fields)
    if count > fields.left:
        raise FormatError("set of entry ids", expected=f"{count} ids", found=plural(fields.left, "byte"))
    for _ in range(count):
        last += read_compact(fields)
        found.append(last)
    fields.finish()
    return found


def encode_ids(ids: Iterable[int]) -> bytes:
    """A set of ids in the newer form."""
    last, parts = 0, []
    for one in ids:
        parts.append(compact(one - last))
        last = one
    return compact(len(parts)) + b"".join(parts)


def entry_id(key: bytes) -> int:
    """An entry id, 8 bytes. FormatError: it is not an id."""
    fields = Fields(key)
    found = fields.number(ID_BYTES, signed=False)
    fields.finish()
    return found


def ldif(dn: str, entry: LdapEntry) -> str:
    """An entry as LDIF (RFC 2849), with an empty line after it."""
    lines = [ldif_line("dn", dn.encode())]
    lines += [ldif_line("objectClass", name.encode()) for name in entry.object_classes]
    lines += [ldif_line(name, value) for name, values in entry.attributes for value in values]
    return "\n".join(lines) + "\n\n"


def ldif_line(name: str, value: bytes) -> str:
    """A line of LDIF, folded; in base64 if the value is not plain ASCII."""
    safe = value.isascii() and not set(value) & _UNSAFE and value[:1] not in (b" ", b":", b"<") and value[-1:] != b" "
    line = f"{name}: {value.decode('ascii')}" if safe else f"{name}:: {base64.b64encode(value).decode('ascii')}"
    if len(line) <= _LDIF_WIDTH:
        return line
    rest = line[_LDIF_WIDTH:]
    width = _LDIF_WIDTH - 1
    return "\n ".join([line[:_LDIF_WIDTH], *(rest[at : at + width] for at in range(0, len(rest), width))])


_NOT_IN_DESCRIPTIONS: Final = frozenset(": <")
_UNSAFE: Final = frozenset((*range(0x20), 0x7F))
_LDIF_WIDTH: Final = 76


@dataclass(frozen=True, slots=True)
class LdapDecoder:
    """Records of a backend."""

    schema: CompressedSchema

    def decode(self, database: str, key: bytes, data: bytes) -> DecodedRecord:
        """Decode a record of any database of the backend."""
        name = index_name(database)
        if name is None:
            return unknown(key, data)
        if name.base.endswith("compressed_schema"):
            return DecodedRecord({"token": key.hex()}, {"names": _texts(data)}, True)
        if name.tree == ID2ENTRY:
            return self._entry(key, data)
        if name.tree == DN2ID:
            return DecodedRecord({"dn": dn_of(name.base, key)}, {"id": entry_id(data)}, True)
        if name.tree == CHILDREN_COUNT:
            fields = Fields(key)
            number, shard = fields.number(ID_BYTES, signed=False), fields.rest()
            count = Fields(data).number(len(data)) if len(data) <= ID_BYTES else None
            return DecodedRecord({"id": number, "shard": shard.hex()}, {"count": count}, count is not None)
        if name.tree in (REFERRAL, STATE, OLD_REFERRAL):
            return DecodedRecord(readable_value(key), readable_value(data), name.tree == STATE and _is_text(key))
        ids = decode_ids(data)
        value = {"over_limit": True} if ids is None else {"ids": ids}
        return DecodedRecord(readable_value(key), value, True)

    def _entry(self, key: bytes, data: bytes) -> DecodedRecord:
        number = {"id": entry_id(key)}
        try:
            entry = decode_entry(data, self.schema)
        except (FormatError, ValueError):
            return DecodedRecord(number, hexed(data), False)
        if isinstance(entry, EncryptedEntry):
            return DecodedRecord(number, {"encrypted": True, "length": entry.length}, False)
        return DecodedRecord(number, entry_json(entry), True)


def entry_json(entry: LdapEntry) -> Json:
    """An entry as JSON: its DN, its object classes, and each attribute with its values."""
    attributes = {name: [readable_value(value) for value in values] for name, values in entry.attributes}
    return {"dn": entry.dn, "objectClass": list(entry.object_classes), **attributes}


def _is_text(data: bytes) -> bool:
    try:
        return data.decode("utf-8").isprintable()
    except ValueError:
        return False


def readable_value(data: bytes) -> Json:
    """A value for JSON: texts as they are, other values such as photographs in base64 as in LDIF."""
    return data.decode("utf-8") if _is_text(data) else {"base64": base64.b64encode(data).decode("ascii")}


def _texts(data: bytes) -> tuple[str, ...]:
    """The texts of an ASN.1 sequence of octet strings."""
    fields = Fields(data)
    _expect(fields, _ASN1_SEQUENCE)
    found = []
    while fields.left:
        _expect(fields, _ASN1_OCTETS, whole=False)
        found.append(fields.text(read_ber_length(fields)))
    return tuple(found)


def encode_texts(texts: Iterable[str]) -> bytes:
    """An ASN.1 sequence of octet strings, as tokens are stored; for tests and examples."""
    body = b"".join(bytes((_ASN1_OCTETS,)) + _octets(text.encode()) for text in texts)
    return bytes((_ASN1_SEQUENCE,)) + _octets(body)


def schema_of(source: Source) -> CompressedSchema:
    """The meanings of a backend's tokens; unreadable ones are left out."""
    attributes: dict[bytes, str] = {}
    classes: dict[bytes, tuple[str, ...]] = {}
    for name in source.names:
        plain = name.removeprefix("/")
        if plain not in (ATTRIBUTES, CLASSES):
            continue
        for token, value in source.records(name, _MOST_TOKENS):
            try:
                texts = _texts(value)
            except (FormatError, ValueError):
                continue
            if plain == CLASSES:
                classes[token] = texts
            elif texts:
                # Name and options: cn;lang-de.
                attributes[token] = ";".join(texts)
    return CompressedSchema(attributes, classes)


class LdapContents:
    """The kind of contents."""

    name = "opendj"
    title = "LDAP backend (OpenDJ family)"

    def recognises(self, source: Source) -> bool:
        """True if the databases that every base DN has are there."""
        found = {name for one in source.names if (name := index_name(one)) is not None}
        return any(IndexName(name.base, DN2ID) in found for name in found if name.tree == ID2ENTRY)

    def decoder(self, source: Source) -> LdapDecoder:
        """A decoder with the tokens of the backend."""
        return LdapDecoder(schema_of(source))


OPENDJ: Final = LdapContents()
