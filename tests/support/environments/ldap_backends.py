"""Backends of an LDAP server, as our own engine writes them after the formats."""

from __future__ import annotations

from pathlib import Path

from engine.contents.opendj import LdapEntry, encode_entry
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment

BASE = "dc=example,dc=com"

# Id, RDNs from the suffix down, children.
TREE = [
    (1, (), 2),
    (2, ("ou=people",), 3),
    (3, ("ou=groups",), 0),
    (4, ("ou=people", "uid=alice"), 0),
    (5, ("ou=people", "uid=bob"), 0),
    (6, ("ou=people", "uid=carol"), 0),
]


def id_key(number: int) -> bytes:
    return number.to_bytes(8, "big")


def dn_key(rdns: tuple[str, ...]) -> bytes:
    return b"".join(b"\0" + rdn.encode() for rdn in rdns)


def entry_of(number: int, rdns: tuple[str, ...], *, with_dn: bool = True) -> LdapEntry:
    dn = ",".join([*reversed(rdns), BASE])
    return LdapEntry(dn if with_dn else None, ("top",), (("entryUUID", (b"uuid-%d" % number,)),))


def write_backend(place: Path, *, with_dn: bool = True) -> Path:
    place.mkdir(parents=True)
    with Environment(place, EnvironmentConfig(create=True)) as env:
        with env.create_database(f"/{BASE}/id2entry") as db:
            for number, rdns, _ in TREE:
                db.put(id_key(number), encode_entry(entry_of(number, rdns, with_dn=with_dn), deflate=number % 2 == 0))
        with env.create_database(f"/{BASE}/dn2id") as db:
            for number, rdns, _ in TREE:
                db.put(dn_key(rdns), id_key(number))
        with env.create_database(f"/{BASE}/id2childrencount") as db:
            for number, _, children in TREE:
                # Two shards.
                if children:
                    db.put(id_key(number) + b"\0", (children - 1).to_bytes(8, "big"))
                    db.put(id_key(number) + b"\1", (1).to_bytes(8, "big"))
    return place
