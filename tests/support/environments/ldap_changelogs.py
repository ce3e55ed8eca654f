"""Replication changelogs of an OpenDJ server, as the encoders write them after the format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.contents.changelog_blocks import frame_records
from engine.contents.changelog_updates import (
    ADD,
    DELETE,
    MODIFY,
    MODIFY_DN,
    Csn,
    NumberedChange,
    ReplicaUpdate,
    encode_numbered,
    encode_update,
)
from engine.contents.ldap_attributes import (
    LdapAttribute,
    LdapModification,
    encode_attributes,
    encode_modifications,
)

CHANGELOG_BASE = "dc=example,dc=com"
START_MS = 1_700_000_000_000
_OPS = (ADD, MODIFY, MODIFY_DN, DELETE)


def csn_of(number: int, server: int) -> Csn:
    return Csn(time_ms=START_MS + 1000 * number, sequence=number, server=server)


def update_record(number: int, server: int) -> bytes:
    """The update with a number: kinds take turns, and sizes differ so that records cross borders everywhere."""
    kind = _OPS[number % len(_OPS)]
    long = LdapAttribute("description;lang-en", (b"\xc3\xa9" * (number * 37 % 300),))
    update = ReplicaUpdate(
        kind=kind,
        csn=csn_of(number, server),
        dn=f"uid=user{number},ou=people,{CHANGELOG_BASE}",
        uuid=f"00000000-0000-0000-0000-{number:012}",
        new_rdn=f"uid=renamed{number}" if kind == MODIFY_DN else None,
        content=_content(kind, number, long),
    )
    return encode_update(update)


def _content(kind: str, number: int, long: LdapAttribute) -> bytes:
    if kind == ADD:
        uid = LdapAttribute("uid", (f"user{number}".encode(),))
        return encode_attributes([LdapAttribute("objectClass", (b"top", b"person")), uid, long])
    if kind == DELETE:
        return b""
    mail = LdapModification("delete", LdapAttribute("mail", ()))
    return encode_modifications([LdapModification("replace", long), mail])


def update_records(numbers: Sequence[int], server: int) -> list[bytes]:
    return [update_record(number, server) for number in numbers]


def log_name(first: int, last: int, server: int) -> str:
    return f"{csn_of(first, server)}_{csn_of(last, server)}.log"


def write_changelog(place: Path) -> Path:
    """A domain with two replicas, of which 22 is offline and has a full file, and an index of change numbers."""
    seven, other = place / "1.dom/7.server", place / "1.dom/22.server"
    for directory in (seven, other, place / "changenumberindex"):
        directory.mkdir(parents=True)
    (place / "domains.state").write_text(f"1:{CHANGELOG_BASE}\n")
    (place / "1.dom/generation4711.id").touch()
    (seven / "head.log").write_bytes(frame_records(update_records(range(0, 20, 2), 7)))
    (other / log_name(1, 9, 22)).write_bytes(frame_records(update_records(range(1, 11, 2), 22)))
    (other / "head.log").write_bytes(frame_records(update_records(range(11, 21, 2), 22)))
    (other / "offline.state").write_text(str(csn_of(21, 22)))
    numbered = [NumberedChange(1 + at, CHANGELOG_BASE, csn_of(at, 22 if at % 2 else 7)) for at in range(20)]
    (place / "changenumberindex/head.log").write_bytes(frame_records(map(encode_numbered, numbered)))
    return place
