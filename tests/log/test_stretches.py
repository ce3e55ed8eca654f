"""Stretches hold the entries that a reader yields one by one, and the same damage between them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import JetoolError
from engine.format.entry_types import LNS, NAME_LNS, TXN_ENDS
from engine.format.fast.loops import keeping
from engine.format.lsn import NULL_LSN
from engine.log.entry import Damage, LogEntry, Stretch
from engine.log.files import LogFiles, list_log_files
from engine.log.reader import FileReader
from engine.log.scan import scan_log
from engine.log.tail import Tail, find_end
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from tests.support import corpus

_ALL = keeping(None)
_EDITS = 24


def opened_out(items: Iterator[Stretch | LogEntry | Damage]) -> list[LogEntry | Damage]:
    """Stretches as their entries."""
    found: list[LogEntry | Damage] = []
    for item in items:
        if isinstance(item, Stretch):
            entries = [item.entry_at(pos) for pos in item.positions(_ALL)]
            assert len(entries) == item.entries
            assert entries[-1].lsn == item.last_lsn
            found += entries
        else:
            found.append(item)
    return found


def environments() -> list[Path]:
    """One of each log of the corpus."""
    return sorted({path.parent for path in (corpus.path() / "je").rglob("*.jdb")})


def whole(env: Path) -> tuple[DiskStorage, LogFiles]:
    storage = DiskStorage(str(env))
    return storage, list_log_files(storage)


def test_stretches_hold_what_entries_yields() -> None:
    compared = 0
    for env in environments():
        storage, files = whole(env)
        for file in files.files:
            with FileReader(storage, file, is_last=False) as one, FileReader(storage, file, is_last=False) as other:
                expected = list(one.entries())
                assert opened_out(other.stretches()) == expected
                compared += len(expected)
    assert compared > 10_000


@pytest.mark.parametrize("window_bytes", [40, 700, 1 << 20])
def test_windows_and_limits_change_nothing(window_bytes: int) -> None:
    storage, files = whole(environments()[0])
    file = files.files[0]
    with FileReader(storage, file, is_last=True) as reader:
        entries = [item for item in reader.entries() if isinstance(item, LogEntry)]
    rng = random.Random(3)
    for _ in range(_EDITS):
        first, last = sorted(rng.sample(range(len(entries)), 2))
        start, end = entries[first].lsn & 0xFFFFFFFF, entries[last].lsn & 0xFFFFFFFF
        with FileReader(storage, file, is_last=True, window_bytes=window_bytes) as reader:
            assert opened_out(reader.stretches(start, end)) == entries[first:last]


def test_damage_is_met_as_by_entries() -> None:
    rng = random.Random(5)
    met = 0
    for env in environments()[::7]:
        file = whole(env)[1].files[-1]
        data = bytearray((env / file.path).read_bytes())
        for _ in range(_EDITS):
            at = rng.randrange(len(data))
            damaged = (
                data[:at] + bytes((data[at] ^ 1 << rng.randrange(8),)) + data[at + 1 : rng.randrange(at, 2 * len(data))]
            )
            memory = MemoryStorage({file.path: bytes(damaged)})
            listed = file._replace(size_bytes=len(damaged))
            with FileReader(memory, listed, is_last=True) as one, FileReader(memory, listed, is_last=True) as other:
                expected = list(one.entries())
                assert opened_out(other.stretches()) == expected
                met += sum(isinstance(item, Damage) for item in expected)
    assert met > _EDITS


def one_by_one(reader: FileReader) -> Iterator[LogEntry | Damage]:
    """Stands for ``stretches``: no stretch at all."""
    return reader.entries()


def end_of_log(storage: MemoryStorage) -> Tail | tuple[type[JetoolError], str]:
    try:
        return find_end(storage, list_log_files(storage))
    except JetoolError as error:
        return type(error), str(error)


def test_the_end_of_a_log_is_found_by_stretches_as_entry_by_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(7)
    ends = []
    for env in environments()[::3]:
        files = {path.name: path.read_bytes() for path in env.glob("*.jdb")}
        last = max(files)
        for edit in range(6):
            data = bytearray(files[last])
            if edit:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            if edit == 1:
                del data[rng.randrange(len(data)) :]
            storage = MemoryStorage(files | {last: bytes(data)})
            ends.append((storage, end_of_log(storage)))
    monkeypatch.setattr(FileReader, "stretches", one_by_one)
    for storage, end in ends:
        assert end_of_log(storage) == end
    tails = [end for _, end in ends if isinstance(end, Tail)]
    assert sum(tail.damage is not None for tail in tails) > 20
    assert sum(tail.commits_at_risk > 0 for tail in tails) > 10


@pytest.mark.parametrize("types", [LNS, NAME_LNS, TXN_ENDS])
def test_entries_of_some_types_are_those_of_a_whole_pass(types: frozenset[int]) -> None:
    for env in environments()[::5]:
        storage, files = whole(env)
        reader = scan_log(storage, files, marker=True)
        expected = [e for e in reader.entries() if isinstance(e, Damage) or e.type_number in types]
        assert list(reader.of_types(types).entries()) == expected
        assert list(reader.of_types(types).between(NULL_LSN, files.files[-1].number << 32).entries()) == [
            e for e in expected if e.lsn >> 32 < files.files[-1].number
        ]
