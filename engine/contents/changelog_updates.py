"""Records of OpenDJ's replication changelog: updates, and entries of the change number index (opendj-changelog.md 3).

An update is stored as the message of the replication protocol that carries it. The messages of protocol version 1 have
types of their own. A server with confidentiality enabled stores a type byte, a version and the encrypted message: not
even the CSN is readable then.

Example::

    decode_update(encode_update(ReplicaUpdate(kind=ADD, csn=Csn(1700000000000, 1, 7), dn="dc=com", uuid="5b6e"))).kind
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from engine.contents.base import Fields
from engine.contents.ldap_attributes import LdapAttribute, LdapModification, decode_attributes, decode_modifications
from engine.errors import FormatError

MODIFY: Final = "modify"
ADD: Final = "add"
DELETE: Final = "delete"
MODIFY_DN: Final = "modify-dn"
GENERIC: Final = "generic"
OFFLINE: Final = "offline"
ENCRYPTED: Final = "encrypted"
KINDS: Final = (ADD, DELETE, MODIFY, MODIFY_DN, GENERIC, OFFLINE, ENCRYPTED)
_FIRST_TYPES: Final = {1: MODIFY, 2: ADD, 3: DELETE, 4: MODIFY_DN}
_TYPES: Final = {22: MODIFY, 23: ADD, 24: DELETE, 25: MODIFY_DN}
_GENERIC_MESSAGE: Final = 29
_OFFLINE_MESSAGE: Final = 37
_ENCRYPTED_RECORD: Final = 0xFF
_ENCRYPTED_VERSION: Final = 1
# From this version of the protocol on, the parts of a message carry their length.
_WITH_LENGTHS: Final = 4
_LATEST: Final = 8
_ASSURED_MODES: Final = (1, 2)
_CSN_TEXT: Final = re.compile(r"([0-9a-fA-F]{16})([0-9a-fA-F]{4})([0-9a-fA-F]{8})")
CSN_TEXT_BYTES: Final = 28
# Java's long, int and unsigned short.
_LATEST_TIME: Final = (1 << 63) - 1
_LAST_SEQUENCE: Final = (1 << 31) - 1


class Csn(NamedTuple):
    """A change sequence number; CSNs sort as tuples do.

    Attributes:
        time_ms: milliseconds since 1970-01-01 UTC, by the clock of the replica.
        sequence: a counter of the replica.
        server: the server id of the replica.
    """

    time_ms: int
    sequence: int
    server: int

    def __str__(self) -> str:
        return f"{self.time_ms:016x}{self.server:04x}{self.sequence:08x}"


def parse_csn(text: str) -> Csn:
    """A CSN of 28 hex digits. FormatError: the text is something else."""
    found = _CSN_TEXT.fullmatch(text)
    time, server, sequence = (int(part, 16) for part in found.groups()) if found else (-1, -1, -1)
    if not 0 <= time <= _LATEST_TIME or not 0 <= sequence <= _LAST_SEQUENCE:
        raise FormatError("CSN", expected=f"{CSN_TEXT_BYTES} hex digits", found=repr(text[: CSN_TEXT_BYTES + 1]))
    return Csn(time_ms=time, sequence=sequence, server=server)


def _binary_csn(fields: Fields) -> Csn:
    time, server, sequence = fields.number(8), fields.number(2, signed=False), fields.number(4)
    if time < 0 or sequence < 0:
        raise FormatError("CSN", expected="a time and a counter that are not negative", found=f"{time}, {sequence}")
    return Csn(time_ms=time, sequence=sequence, server=server)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaUpdate:
    """An update.

    Attributes:
        kind: of ``KINDS``.
        csn: None if the update is encrypted.
        version: of the protocol; None if the update is encrypted.
        dn: the entry, before a change of its DN; None for the kinds that have none.
        uuid: its entryUUID; None if the update lacks it.
        parent_uuid: that of the parent of an added entry, or of the new parent.
        new_rdn, new_superior: of a change of the DN; the superior is None if the entry stays below its parent.
        deletes_old_rdn: whether a change of the DN deletes the values of the old RDN; None for other kinds.
        subtree: whether a deletion includes the entries below, as it does in versions before 4; None for other kinds.
        content: encoded attributes of an addition (``attributes_of``), modifications of a modification or a change of
            the DN (``modifications_of``), payload or encrypted bytes.
    """

    kind: str
    csn: Csn | None
    version: int | None = _LATEST
    dn: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    new_rdn: str | None = None
    new_superior: str | None = None
    deletes_old_rdn: bool | None = None
    subtree: bool | None = None
    content: bytes = b""


def attributes_of(update: ReplicaUpdate) -> tuple[LdapAttribute, ...]:
    """The attributes of an added entry, ``objectClass`` first; none for other kinds.

    Raises:
        FormatError, ValueError: the content cannot be decoded.
    """
    return decode_attributes(update.content) if update.kind == ADD else ()


def modifications_of(update: ReplicaUpdate) -> tuple[LdapModification, ...]:
    """The modifications of an update; none for kinds that have none.

    Raises:
        FormatError, ValueError: the content cannot be decoded.
    """
    return decode_modifications(update.content) if update.kind in (MODIFY, MODIFY_DN) else ()


def has_readable_content(update: ReplicaUpdate) -> bool:
    """Whether attributes and modifications can be decoded; True for kinds that have neither."""
    try:
        attributes_of(update)
        modifications_of(update)
    except (FormatError, ValueError):
        return False
    return True


def decode_update(data: bytes) -> ReplicaUpdate:
    """Decode a record of a replica.

    Raises:
        FormatError: the bytes are not an update. ValueError: a text in it is not UTF-8.
    """
    fields = Fields(data)
    number = fields.number(1, signed=False)
    if number == _ENCRYPTED_RECORD:
        version = fields.number(1)
        if version != _ENCRYPTED_VERSION:
            raise FormatError("encrypted update", expected=f"version {_ENCRYPTED_VERSION}", found=str(version))
        return ReplicaUpdate(kind=ENCRYPTED, csn=None, version=None, content=fields.rest())
    if number == _OFFLINE_MESSAGE:
        version, csn = fields.number(2), _binary_csn(fields)
        fields.finish()
        return ReplicaUpdate(kind=OFFLINE, csn=csn, version=version)
    if number == _GENERIC_MESSAGE:
        version, csn = fields.number(1), _csn(fields)
        _assured(fields)
        return ReplicaUpdate(kind=GENERIC, csn=csn, version=version, content=fields.rest())
    if number in _FIRST_TYPES:
        csn = _csn(fields)
        fields.number(1)
        return _body(fields, _FIRST_TYPES[number], csn, 1, _text(fields), _text(fields))
    if number not in _TYPES:
        raise FormatError("update", expected="a type of update", found=f"type {number}")
    version, csn, dn, uuid = fields.number(1), _csn(fields), _text(fields), _text(fields)
    _assured(fields)
    return _body(fields, _TYPES[number], csn, version, dn, uuid)


def _text(fields: Fields) -> str | None:
    """A text that ends with a zero byte; None for an empty one."""
    return fields.until(0).decode("utf-8") or None


def _csn(fields: Fields) -> Csn:
    return parse_csn(_text(fields) or "")


def _assured(fields: Fields) -> None:
    """Flag, mode and level of assured replication."""
    fields.number(1)
    mode = fields.number(1)
    fields.number(1)
    if mode not in _ASSURED_MODES:
        raise FormatError("assured mode of an update", expected="1 or 2", found=str(mode))


def _body(fields: Fields, kind: str, csn: Csn, version: int, dn: str | None, uuid: str | None) -> ReplicaUpdate:
    parent = rdn = superior = deletes_old = subtree = None
    if kind == ADD:
        parent = _text(fields)
    elif kind == MODIFY_DN:
        rdn, superior, parent = _text(fields), _text(fields), _text(fields)
        deletes_old = bool(fields.number(1))
    elif kind == DELETE and version >= _WITH_LENGTHS:
        # The name of the initiator.
        _text(fields)
    if version >= _WITH_LENGTHS:
        content = b"" if kind == DELETE else _counted(fields)
        # Attributes of the entry for readers of the external changelog.
        _counted(fields)
        if kind == DELETE:
            subtree = bool(fields.number(1))
        fields.finish()
    else:
        # The server takes every deletion of these versions for one of a subtree.
        subtree = True if kind == DELETE else None
        # Versions 2 and 3 end modifications of a change of the DN with a zero byte.
        content = fields.raw(fields.left - (kind == MODIFY_DN and version > 1))
    return ReplicaUpdate(
        kind=kind,
        csn=csn,
        version=version,
        dn=dn,
        uuid=uuid,
        parent_uuid=parent,
        new_rdn=rdn,
        new_superior=superior,
        deletes_old_rdn=deletes_old,
        subtree=subtree,
        content=content,
    )


def _counted(fields: Fields) -> bytes:
    """Read bytes that follow their length in decimal digits and precede a zero byte."""
    text = _text(fields) or ""
    if not re.fullmatch(r"[0-9]{1,10}", text):
        raise FormatError("length in an update", expected="decimal digits", found=repr(text[:20]))
    found = fields.raw(int(text))
    if fields.number(1) != 0:
        raise FormatError("update", expected="a zero byte after counted bytes", found="another byte")
    return found


class NumberedChange(NamedTuple):
    """An entry of the change number index."""

    number: int
    dn: str
    csn: Csn


def decode_numbered(data: bytes) -> NumberedChange:
    """Decode a record of the change number index: number, base DN, CSN. FormatError, ValueError: other bytes."""
    fields = Fields(data)
    number, dn = fields.number(8), fields.until(0).decode("utf-8")
    csn = _binary_csn(fields)
    fields.finish()
    return NumberedChange(number=number, dn=dn, csn=csn)


def encode_numbered(one: NumberedChange) -> bytes:
    """A record of the change number index; for tests and examples."""
    return one.number.to_bytes(8, "big") + one.dn.encode() + b"\0" + _csn_bytes(one.csn)


def _csn_bytes(csn: Csn) -> bytes:
    return csn.time_ms.to_bytes(8, "big") + csn.server.to_bytes(2, "big") + csn.sequence.to_bytes(4, "big")


def encode_update(update: ReplicaUpdate) -> bytes:
    """A record of a replica, as the latest version of the protocol writes it (``version`` is not used); for tests and
    examples.
    """
    csn, content = update.csn, update.content
    if csn is None:
        return bytes((_ENCRYPTED_RECORD, _ENCRYPTED_VERSION)) + content
    if update.kind == OFFLINE:
        return bytes((_OFFLINE_MESSAGE, 0, _LATEST)) + _csn_bytes(csn)
    assured = b"\0\2\1"
    stamp = bytes((_LATEST,)) + _ended(str(csn))
    if update.kind == GENERIC:
        return bytes((_GENERIC_MESSAGE,)) + stamp + assured + content
    number = next(number for number, kind in _TYPES.items() if kind == update.kind)
    out = bytes((number,)) + stamp + _ended(update.dn) + _ended(update.uuid) + assured
    if update.kind == DELETE:
        return out + _ended(None) + _sized(b"") + bytes((bool(update.subtree),))
    if update.kind == ADD:
        out += _ended(update.parent_uuid)
    elif update.kind == MODIFY_DN:
        out += _ended(update.new_rdn) + _ended(update.new_superior) + _ended(update.parent_uuid)
        out += bytes((bool(update.deletes_old_rdn),))
    return out + _sized(content) + _sized(b"")


def _ended(text: str | None) -> bytes:
    return (text or "").encode() + b"\0"


def _sized(data: bytes) -> bytes:
    return _ended(str(len(data))) + data + b"\0"
