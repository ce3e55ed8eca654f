"""Environments of applications, whole and damaged: an LDAP backend, a NoSQL node, and one of no known application.

A damaged one is what a killed process and a flipped bit leave: eleven transactions after the last close, and a bit
flipped in the first entry of the first of them, so that ten or eleven intact Commits stand after the damage.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from engine.catalog.name_operations import DatabaseOptions
from engine.contents.opendj import LdapEntry, encode_entry
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.format.entry_types import USER_LNS
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.scan import scan_log
from engine.storage.disk import DiskStorage

BASE: Final = "dc=example,dc=com"
# Transactions of a damaged environment that its recovery does not see.
AFTER: Final = 11
_ORDER: Final = "oracle.kv.Key$BytesComparator"
_FLIPPED_AT: Final = 30

Write = Callable[[Environment, range], None]


def write_ldap(env: Environment, numbers: range) -> None:
    """Entries ``uid=u1`` and so on, each with its DN in one transaction."""
    with env.open_database(f"/{BASE}/id2entry") as entries, env.open_database(f"/{BASE}/dn2id") as names:
        for number in numbers:
            key = number.to_bytes(8, "big")
            dn = f"uid=u{number},{BASE}"
            with env.begin() as txn:
                names.put(f"\0uid=u{number}".encode(), key, txn)
                entries.put(key, encode_entry(LdapEntry(dn, ("top",), (("uid", (b"u%d" % number,)),))), txn)


def write_nosql(env: Environment, numbers: range) -> None:
    """Rows of table 2 in partition 1."""
    with env.open_database("p1") as db:
        for number in numbers:
            db.put(b"r\0user%02d" % number, b"\x01\x05\xaa")


def write_plain(env: Environment, numbers: range) -> None:
    """Records of a database ``orders``."""
    with env.open_database("orders") as db:
        for number in numbers:
            db.put(b"order%02d" % number, b"x" * 40)


def create_ldap(place: Path) -> Path:
    """A backend of four entries."""
    return _create(place, write_ldap, {f"/{BASE}/id2entry": None, f"/{BASE}/dn2id": None})


def create_nosql(place: Path) -> Path:
    """A shard of one partition."""
    return _create(place, write_nosql, {"p1": _ORDER})


def create_plain(place: Path) -> Path:
    """An environment of one database."""
    return _create(place, write_plain, {"orders": None})


def damage(env: Path, write: Write) -> Path:
    """Write as a process that is killed then, and flip a bit in the first of its entries; the environment."""
    killed = env.with_name(f"{env.name}.killed")
    with Environment(env) as opened:
        before = len(records_of(env))
        write(opened, range(10, 10 + AFTER))
        shutil.copytree(env, killed)
    shutil.rmtree(env)
    killed.rename(env)
    flip(env, records_of(env)[before])
    return env


def flip(env: Path, lsn: int) -> None:
    """Flip a bit in an entry."""
    log = env / f"{lsn >> 32:08x}.jdb"
    data = bytearray(log.read_bytes())
    data[(lsn & 0xFFFFFFFF) + _FLIPPED_AT] ^= 0x10
    log.write_bytes(data)


def _create(place: Path, write: Write, databases: dict[str, str | None]) -> Path:
    place.mkdir(parents=True)
    with Environment(place, EnvironmentConfig(create=True)) as env:
        for name, order in databases.items():
            env.create_database(name, DatabaseOptions(comparator=order)).close()
        write(env, range(1, 5))
    return place


def records_of(env: Path) -> list[int]:
    """LSNs of the records of users."""
    storage = DiskStorage(env)
    found = scan_log(storage, list_log_files(storage), marker=True).entries()
    return [item.lsn for item in found if isinstance(item, LogEntry) and item.type_number in USER_LNS]
