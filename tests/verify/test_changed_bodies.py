"""Entries whose bodies are wrong although their checksums are right: a check ends with findings, never with anything
else, and in bounded time."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from engine.errors import UnsupportedError
from engine.format.header import entry_checksum
from engine.format.lsn import offset_of
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.reader import FileReader
from engine.storage.memory import MemoryStorage
from engine.verify.trees import verify_trees
from tests.support.damage.spoiled_trees import ALL, sound

pytestmark = pytest.mark.exhaustive

ROUNDS = 60
Entries = list[tuple[str, LogEntry]]


def entries_of(storage: MemoryStorage) -> Entries:
    files = list_log_files(storage).files
    found: Entries = []
    for file in files:
        with FileReader(storage, file, is_last=file is files[-1]) as reader:
            found += [(file.path, entry) for entry in reader.entries() if isinstance(entry, LogEntry) and entry.body]
    return found


def changed(storage: MemoryStorage, entries: Entries, chance: random.Random) -> MemoryStorage:
    """A copy in which one to three entries have some other bytes."""
    copy = MemoryStorage(storage.contents())
    for path, entry in chance.sample(entries, chance.randint(1, 3)):
        file = copy.open_rw(path)
        offset, length = offset_of(entry.lsn), entry.total_bytes
        data = bytearray(file.read(offset, length))
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(length - entry.item_size, length)] = chance.choice((0, 0xFF, chance.randrange(256)))
        data[:4] = entry_checksum(bytes(data), entry.version).to_bytes(4, "little")
        file.write(offset, bytes(data))
    return copy


@pytest.mark.parametrize("name", ["", "je-6", "je-14", "je-17", "je-26"])
def test_wrong_bodies_make_findings(name: str, golden_dir: Path) -> None:
    chance = random.Random(name)
    storages = [sound()]
    if name:
        homes = sorted(path for path in (golden_dir / name).iterdir() if path.name != "restore-required")
        storages = [MemoryStorage({file.name: file.read_bytes() for file in home.glob("*.jdb")}) for home in homes]
    listed = [(storage, entries_of(storage)) for storage in storages]
    with_findings = 0
    for _ in range(ROUNDS):
        storage, entries = chance.choice(listed)
        copy = changed(storage, entries, chance)
        try:
            report = verify_trees(copy, list_log_files(copy), ALL)
        except UnsupportedError:
            # The version in a file header has become one that nobody reads.
            continue
        with_findings += bool(report.findings)
        assert len(report.findings) < 2_000
    assert with_findings > ROUNDS // 10
