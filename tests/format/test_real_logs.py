"""Every entry of every real log: decoded with no byte left, encoded again to the same bytes, with its header."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from engine.format.codecs import decode_body, encode_body
from engine.format.describe import describe, describe_slots
from engine.format.entry.ln import LN
from engine.format.entry.node import NodeRecord
from engine.format.entry_types import BY_NUMBER, DELTA_TYPE, ERASED, FILE_SUMMARY_LN
from engine.format.fast.file_summary import summarised_file
from engine.format.header import EntryHeader, encode_entry
from engine.log.entry import Damage
from engine.log.files import list_log_files
from engine.log.reader import FileReader
from engine.storage.disk import DiskStorage
from tests.support import corpus
from tests.support.logs.golden_logs import EXPECTED, GOLDEN


def assert_round_trip(environment: Path) -> Counter[tuple[int, int]]:
    """Decode and encode each entry; returns how many there were by type and version."""
    storage = DiskStorage(environment)
    files = list_log_files(storage)
    seen: Counter[tuple[int, int]] = Counter()
    for file in (*files.files, *([files.marker] if files.marker else [])):
        with FileReader(storage, file, is_last=file == files.files[-1]) as reader:
            whole = (environment / file.path).read_bytes()
            for item in reader.entries():
                if isinstance(item, Damage):
                    continue
                record = decode_body(item.type_number, item.version, item.body)
                again = encode_body(item.type_number, item.version, record)
                assert again == item.body, (item, record)
                assert describe(record, delta=item.type_number == DELTA_TYPE)
                if isinstance(record, LN) and item.type_number == FILE_SUMMARY_LN:
                    told = (int.from_bytes(record.key[:4], "big"), record.data is None)
                    assert summarised_file(item.body, item.version) in (told, None)
                if isinstance(record, NodeRecord):
                    assert len(describe_slots(record, delta=item.type_number == DELTA_TYPE)) == record.n_entries
                assert BY_NUMBER[item.type_number].since <= item.version
                at = item.lsn & 0xFFFFFFFF
                header = EntryHeader(0, item.type_number, item.flags, item.prev_offset, 0, item.vlsn)
                entry = encode_entry(header, again, item.version)
                first = 4 if item.type_number == ERASED else 0
                assert entry[first:] == whole[at : at + len(entry)][first:]
                seen[item.type_number, item.version] += 1
    return seen


@pytest.mark.parametrize("environment", EXPECTED)
def test_golden_logs(environment: str) -> None:
    assert sum(assert_round_trip(GOLDEN / environment).values()) >= EXPECTED[environment]["entries"]


def test_golden_logs_cover_the_types() -> None:
    """What only the corpus has; everything else occurs in a golden log."""
    seen: Counter[int] = Counter()
    for environment in EXPECTED:
        for (number, _), count in assert_round_trip(GOLDEN / environment).items():
            seen[number] += count
    # MapLN_TX was never seen; the others need INDelete, cleaning, backups, extinction, erasure or version 26 settings.
    assert set(BY_NUMBER) - set(seen) == {2, 3, 8, 21, 23, 26, 32, 36, 38, 40, 41, 42, 43, 45}


def fixtures() -> list[Path]:
    return sorted((corpus.path() / "je").glob("**/env"))


@pytest.mark.parametrize(
    "environment", fixtures(), ids=lambda path: "-".join(path.parts[path.parts.index("je") + 1 : -1])
)
def test_corpus(environment: Path) -> None:
    assert assert_round_trip(environment)


def test_the_corpus_is_whole() -> None:
    assert len(fixtures()) == 114
