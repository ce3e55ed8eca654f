"""Entries with good checksums and senseless content: recovery ends with an error that says where, or succeeds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError
from engine.format.header import EntryHeader, encode_entry
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.reader import FileReader
from engine.storage.memory import MemoryStorage
from tests.recovery.test_real_environments import FIXTURES
from tests.recovery.test_recover_for_writing import copy_of

CASES = ["je-18.3.20/rollback-straddle", "je-18.3.20/schema-crash", "je-3.3.98/dups", "je-25.3.17/ttl"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", CASES)
def test_changed_bodies(case: str) -> None:
    env = FIXTURES / case / "env"
    storage = copy_of(env)
    entries = entries_of(storage)
    chosen = random.Random(case)
    refused = 0
    for _ in range(120):
        image = changed(storage, chosen.choice(entries), chosen)
        refused += not opens(image)
    assert refused < 120


def entries_of(storage: MemoryStorage) -> list[tuple[str, LogEntry]]:
    found = []
    for file in list_log_files(storage).files:
        with FileReader(storage, file, is_last=True) as reader:
            found += [(file.path, e) for e in reader.entries() if isinstance(e, LogEntry) and e.type_number != 25]
    return found


def changed(storage: MemoryStorage, target: tuple[str, LogEntry], chosen: random.Random) -> MemoryStorage:
    """One to three bytes of one body changed, the checksum made right again."""
    path, entry = target
    body = bytearray(entry.body)
    for _ in range(chosen.randint(1, 3)):
        if body:
            body[chosen.randrange(len(body))] = chosen.choice((0, 1, 0x7F, 0x80, 0xFF, chosen.randrange(256)))
    header = EntryHeader(0, entry.type_number, entry.flags, entry.prev_offset, 0, entry.vlsn)
    data = encode_entry(header, bytes(body), entry.version)
    files = storage.contents()
    offset = entry.lsn & 0xFFFFFFFF
    files[path] = files[path][:offset] + data + files[path][offset + len(data) :]
    return MemoryStorage(files)


def opens(image: MemoryStorage) -> bool:
    try:
        with Environment(image, EnvironmentConfig(read_only=True)) as env:
            for name in env.database_names():
                with env.open_database(name) as db:
                    for _ in db.items():
                        pass
    except JetoolError:
        return False
    return True


def test_the_place_is_named() -> None:
    env = FIXTURES / "je-18.3.20" / "txn-closed" / "env"
    storage = copy_of(Path(env))
    path, entry = next(found for found in reversed(entries_of(storage)) if found[1].type_name == "MapLN")
    header = EntryHeader(0, entry.type_number, entry.flags, entry.prev_offset, 0, entry.vlsn)
    files = storage.contents()
    offset = entry.lsn & 0xFFFFFFFF
    data = encode_entry(header, b"\x7f" * entry.item_size, entry.version)
    files[path] = files[path][:offset] + data + files[path][offset + len(data) :]
    with pytest.raises(JetoolError) as caught:
        Environment(MemoryStorage(files), EnvironmentConfig(read_only=True))
    assert caught.value.lsn is not None
    assert caught.value.exit_code == 7
