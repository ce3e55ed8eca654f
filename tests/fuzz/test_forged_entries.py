"""Entries with right checksums and values out of all bounds: every command that reads ends in a code that it declares.

No MemoryError and no traceback: values from files are bounded where they are read. Seeded, so that a failure comes
back; the address space of the process is limited, so that an allocation by a forged length shows.
"""

from __future__ import annotations

import random
import resource
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from engine.format.header import entry_checksum
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.reader import FileReader
from engine.storage.disk import DiskStorage
from jetool.frame import exits
from tests.support.harness import run
from tests.support.logs.golden_logs import GOLDEN

ROUNDS: Final = 25
ROOM_BYTES: Final = 700 << 20
VLSN_AT: Final = 14
VLSNS: Final = (1 << 62, (1 << 63) - 1, -(1 << 63), (1 << 31) - 1, -1, 0, 1 << 40)
# Integers as JE packs them, and raw ones: the largest, the smallest, lengths of gigabytes.
EXTREMES: Final = tuple(
    bytes.fromhex(text)
    for text in (
        "ffffffffffffff7f", "0000000000000080", "ffffffffffffffff", "ffffff7f", "00000080", "7bffffff7f",
        "7fffffffffffffff7f", "81ffffffffffffffff", "ff", "80", "7f", "00",
    )
)  # fmt: skip
COMMANDS: Final = (
    ("info",), ("info", "--stats"), ("dbs", "--count"), ("dump-log", "--json"), ("dump-log", "--explain"),
    ("dump-log", "--stats", "type"), ("txns",), ("rollbacks", "--json"), ("vlsn range",), ("vlsn check",),
    ("group show",), ("verify",), ("verify", "--full", "--json"), ("recover", "-n"), ("vlsn rebuild", "-n"),
)  # fmt: skip


class Place(NamedTuple):
    """An entry: its file, where it begins, its header and its length."""

    path: str
    offset: int
    header: int
    size: int
    version: int


@pytest.fixture
def little_memory() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + ROOM_BYTES, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def places(env: Path) -> dict[int, list[Place]]:
    """The entries of an environment by type."""
    storage = DiskStorage(env)
    found: dict[int, list[Place]] = {}
    for file in list_log_files(storage).files:
        with FileReader(storage, file, is_last=False) as reader:
            for item in reader.entries():
                if isinstance(item, LogEntry):
                    header = 14 if item.vlsn == -1 else 22
                    offset = item.lsn & 0xFFFFFFFF
                    place = Place(file.path, offset, header, header + item.item_size, item.version)
                    found.setdefault(item.type_number, []).append(place)
    return found


def forged(rng: random.Random, place: Place, whole: bytes) -> bytes:
    """The file with one value of an entry out of all bounds, its checksum right; often the log ends there."""
    raw = bytearray(whole[place.offset : place.offset + place.size])
    value = rng.choice([one for one in EXTREMES if len(one) <= place.size - place.header])
    if place.header == VLSN_AT + 8 and rng.random() < 0.3:
        struct.pack_into("<q", raw, VLSN_AT, rng.choice(VLSNS))
    else:
        at = rng.randrange(place.header, place.size - len(value) + 1)
        raw[at : at + len(value)] = value
    struct.pack_into("<I", raw, 0, entry_checksum(bytes(raw), place.version))
    rest = whole[place.offset + place.size :] if rng.random() < 0.5 else b""
    return whole[: place.offset] + bytes(raw) + rest


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("name", ["je-17/txn-crash", "je-17/ha-rollback"])
def test_no_value_of_an_entry_ends_a_reader(tmp_path: Path, name: str) -> None:
    env = tmp_path / "env"
    shutil.copytree(GOLDEN / name, env)
    rng = random.Random(name)
    by_type = places(env)
    codes = set()
    for _ in range(ROUNDS):
        # Types are equally likely: a log has one CkptEnd and a thousand LNs.
        place = rng.choice(by_type[rng.choice(sorted(by_type))])
        if place.size == place.header:
            continue
        path = env / place.path
        whole = path.read_bytes()
        path.write_bytes(forged(rng, place, whole))
        for words in rng.sample(COMMANDS, 3):
            done = run(*words[0].split(), env, *words[1:])
            assert done.code != exits.INTERNAL, (words, place, done.err)
            assert "Traceback" not in done.err
            codes.add(done.code)
        path.write_bytes(whole)
    assert len(codes) > 1
