"""Attributes and modifications as LDAP encodes them (RFC 4511 4.1.7 and 4.6), which OpenDJ's updates contain.

BER: each part is a tag, a length and bytes. An attribute is a sequence of its description and the set of its values; a
modification is a sequence of its kind and an attribute. Several follow each other without a sequence around them.

Example, the attribute ``cn`` with the value ``abc``::

    30 0b   04 02 63 6e   31 05   04 03 61 62 63
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from engine.contents.base import Fields
from engine.contents.opendj import ber_length, read_ber_length, require_description
from engine.errors import FormatError

_OCTETS: Final = 0x04
_ENUMERATED: Final = 0x0A
_SEQUENCE: Final = 0x30
_SET: Final = 0x31
# By their number in the protocol; LDIF has the same words.
MODIFICATIONS: Final = ("add", "delete", "replace", "increment")


class LdapAttribute(NamedTuple):
    """An attribute: its description, which is name and options, and its values."""

    name: str
    values: tuple[bytes, ...]


class LdapModification(NamedTuple):
    """A modification, of a kind of ``MODIFICATIONS``."""

    kind: str
    attribute: LdapAttribute


def decode_attributes(data: bytes) -> tuple[LdapAttribute, ...]:
    """Decode the attributes of an added entry.

    Raises:
        FormatError: the bytes are not attributes. ValueError: a description is not UTF-8.
    """
    return tuple(_attribute(part) for part in _parts(data, _SEQUENCE))


def decode_modifications(data: bytes) -> tuple[LdapModification, ...]:
    """Decode modifications.

    Raises:
        FormatError: the bytes are not modifications. ValueError: a description is not UTF-8.
    """
    return tuple(_modification(part) for part in _parts(data, _SEQUENCE))


def _modification(data: bytes) -> LdapModification:
    fields = Fields(data)
    number = int.from_bytes(_part(fields, _ENUMERATED), "big")
    if number >= len(MODIFICATIONS):
        raise FormatError("LDAP modification", expected=f"a kind below {len(MODIFICATIONS)}", found=str(number))
    attribute = _attribute(_part(fields, _SEQUENCE))
    fields.finish()
    return LdapModification(kind=MODIFICATIONS[number], attribute=attribute)


def _attribute(data: bytes) -> LdapAttribute:
    fields = Fields(data)
    name = _part(fields, _OCTETS).decode("utf-8")
    require_description(name)
    values = tuple(_parts(_part(fields, _SET), _OCTETS))
    fields.finish()
    return LdapAttribute(name=name, values=values)


def _parts(data: bytes, tag: int) -> Iterator[bytes]:
    fields = Fields(data)
    while fields.left:
        yield _part(fields, tag)


def _part(fields: Fields, tag: int) -> bytes:
    found = fields.number(1, signed=False)
    if found != tag:
        raise FormatError("LDAP message", expected=f"tag {tag:#04x}", found=f"{found:#04x}")
    return fields.raw(read_ber_length(fields))


def encode_attributes(attributes: Iterable[LdapAttribute]) -> bytes:
    """The attributes of an added entry; for tests and examples."""
    return b"".join(
        _tagged(
            _SEQUENCE, _tagged(_OCTETS, name.encode()) + _tagged(_SET, b"".join(_tagged(_OCTETS, v) for v in values))
        )
        for name, values in attributes
    )


def encode_modifications(modifications: Iterable[LdapModification]) -> bytes:
    """Modifications; for tests and examples."""
    return b"".join(
        _tagged(
            _SEQUENCE,
            _tagged(_ENUMERATED, bytes((MODIFICATIONS.index(one.kind),))) + encode_attributes([one.attribute]),
        )
        for one in modifications
    )


def _tagged(tag: int, data: bytes) -> bytes:
    return bytes((tag,)) + ber_length(len(data)) + data
