"""Environments of frontends, written by our own engine after the formats (fe-journals.md 1 to 3)."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from engine.catalog.name_operations import DatabaseOptions
from engine.contents.journals import EPOCHS, encode_json_journal, journal_id, journal_key
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.format.entry_types import USER_LNS
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.scan import scan_log
from engine.rep.group import form_group, lead_alone
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage

Journals = Mapping[int, bytes]
# 2026-11-21T00:00:00Z, and how far the clock goes from one journal of it to the next.
CLOCK_MS = 1_795_219_200_000
CLOCK_EVERY = 10
NODE = "fe1_9010_1700000000000"


def json_of(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def value_of(number: int, *, doris: bool = True) -> bytes:
    """The journal of an id: every tenth is one of the clock, the others are of three operations in turn."""
    if number % CLOCK_EVERY == 0:
        time = json_of({"timestamp": CLOCK_MS + number * 1000})
        return encode_json_journal(70 if doris else 13040, time, padding=37 if doris else 0)
    code = ((100, 1, 126) if doris else (12110, 12001, 10071))[number % 3]
    text = json_of({"id": 10_000 + number, "name": f"table_{number}", "label": "insert_5f1e"})
    # Doris stores its buffer, whose size is doubled from 128 on.
    return encode_json_journal(code, text, padding=max(128 - 6 - len(text), 0) if doris else 0)


def journals(first: int, count: int, *, doris: bool = True) -> dict[int, bytes]:
    return {number: value_of(number, doris=doris) for number in range(first, first + count)}


def rolled(first: int, count: int, every: int, *, doris: bool = True) -> dict[str, Journals]:
    """Journals in databases that were rolled after so many."""
    whole = range(first, first + count, every)
    return {str(start): journals(start, min(every, first + count - start), doris=doris) for start in whole}


def write_frontend(
    place: Path | Storage, databases: Mapping[str, Journals], *, epochs: int = 1, batch: int = 1,
    replicated: bool = False, node_max: int = 32,
) -> None:  # fmt: skip
    """Make the environment of a frontend.

    Arguments:
        databases: by name, journals by id.
        batch: journals of one transaction.
    """
    config = EnvironmentConfig(create=True, node_max_entries=node_max, replicated=replicated)
    with Environment(place, config) as env:
        if replicated:
            form_group(env, "PALO_JOURNAL_GROUP", NODE, "localhost", 5001)
        for name, values in databases.items():
            with env.create_database(name, DatabaseOptions(max_entries=node_max)) as db:
                rest = iter(values.items())
                while part := list(islice(rest, batch)):
                    with env.begin() as txn:
                        for number, value in part:
                            db.put(journal_key(number), value, txn)
        with env.create_database(EPOCHS) as db:
            for epoch in range(1, epochs + 1):
                db.put(journal_key(epoch), b"\0")


def write_cut_frontend(env: Path) -> None:
    """Forty-one journals of Doris, of which recovery sees none: a node before all of them is damaged."""
    write_frontend(env, rolled(1, 40, 20))
    storage = DiskStorage(env)
    nodes = [item for item in scan_log(storage, list_log_files(storage), marker=True).entries() if item.lsn > 0x400]
    with Environment(env) as opened, opened.open_database("21") as db:
        db.put(journal_key(41), value_of(41))
    log = env / "00000000.jdb"
    data = bytearray(log.read_bytes())
    data[nodes[0].lsn + 24] ^= 0x10
    log.write_bytes(data)


def damage_tail(env: Path, target: str, after: int = 10) -> int:
    """Write journals to database 201 as a master that is killed then, and flip a bit in the last file.

    Arguments:
        target: the entry that is damaged: the ``journal`` or the ``commit`` of the first journal, or ``nothing``.
        after: whole journals after it.

    Returns:
        The LSN of the damaged entry.
    """
    with Environment(env) as opened:
        if opened.replicated:
            lead_alone(opened.engine)
        with opened.open_database("201") as db:
            begin = max(journal_id(key) for key, _ in db.items()) + 1
            for number in range(begin, begin + after + 1):
                db.put(journal_key(number), value_of(number))
        killed = env.with_name("killed")
        shutil.copytree(env, killed)
    shutil.rmtree(env)
    killed.rename(env)
    storage = DiskStorage(env)
    found = list(scan_log(storage, list_log_files(storage), marker=True).entries())
    at = [index for index, item in enumerate(found) if isinstance(item, LogEntry) and item.type_number in USER_LNS]
    lsn = found[at[-after - 1] + (target == "commit")].lsn
    if target != "nothing":
        log = env / f"{lsn >> 32:08x}.jdb"
        data = bytearray(log.read_bytes())
        data[(lsn & 0xFFFFFFFF) + 30] ^= 0x10
        log.write_bytes(data)
    return lsn


def doris_image(number: int, parts: bytes = b"parts") -> bytes:
    """An image of Doris 2.1 whose parts are these bytes."""
    header = b"COR1" + _text(b'{"imageVersion":"v1"}')
    body = header + struct.pack(">iqq?", 129, number, 10_000, True) + parts
    places = [(b"header", len(header)), (b"masterInfo", len(header) + 21)]
    footer = struct.pack(">qi", 24525, len(places)) + b"".join(
        _text(name) + struct.pack(">q", at) for name, at in places
    )
    return body + footer + struct.pack(">q", len(footer)) + b"COR1"


def _text(text: bytes) -> bytes:
    return struct.pack(">i", len(text)) + text


def write_images(meta: Path, images: Iterable[int], role: str = "FOLLOWER") -> None:
    """The directory ``image`` of a frontend."""
    directory = meta / "image"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "ROLE").write_text(f"#Sat Nov 21 10:00:00 UTC 2026\nrole={role}\nname={NODE}\n")
    (directory / "VERSION").write_text("clusterId=1234567\ntoken=5b6e\n")
    for image in images:
        (directory / f"image.{image}").write_bytes(doris_image(image))
    (directory / "image.ckpt").write_bytes(b"")
