"""The two ways to read a file, entry by entry and in bulk, agree on every input (engine.log.reader, engine.log.check).

Inputs are golden logs with damage: flipped bytes, zeroed, cut, inserted, removed and repeated ranges.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.format.entry.rollback import RollbackStart
from engine.format.entry_types import ERASED, ROLLBACK_START
from engine.log.check import FileCheck, VLSNBreak
from engine.log.entry import Damage, LogEntry
from tests.support.logs.golden_logs import GoldenFile, check, damages, entries, golden_files, open_bytes, right_checksum

SMALL = [file for file in golden_files() if len(file.data) < 25_000]
WINDOWS = (1 << 10, 4_000, 1 << 24)


def steps_back(items: list[LogEntry | Damage]) -> list[VLSNBreak]:
    """The rule of je-log-format.md 11.1, said without a loop over buffers."""
    found = []
    stream = -1
    for entry in entries(items):
        if entry.invisible:
            continue
        if entry.type_number == ROLLBACK_START and stream != -1:
            record = entry.record()
            assert isinstance(record, RollbackStart)
            stream = min(stream, record.matchpoint_vlsn)
        if entry.replicated:
            if entry.vlsn <= stream:
                found.append(VLSNBreak(entry.lsn & 0xFFFFFFFF, entry.vlsn, stream))
            stream = entry.vlsn
    return found


def assert_tiles(items: list[LogEntry | Damage], size: int) -> None:
    """Entries and stretches of damage cover the file without holes or overlaps."""
    at = 0
    for item in items:
        assert item.lsn & 0xFFFFFFFF == at
        at += item.length if isinstance(item, Damage) else size_of(item)
    assert at == size


def size_of(entry: LogEntry) -> int:
    return len(entry.body) + (14 if entry.vlsn == -1 and not entry.replicated else 22)


def assert_entries_are_real(items: list[LogEntry | Damage], data: bytes, version: int) -> None:
    """Each entry's bytes carry its own checksum and link; a link may only be wrong where damage was reported."""
    before: int | None = 0
    broken = False
    for item in items:
        at = item.lsn & 0xFFFFFFFF
        if isinstance(item, Damage):
            before, broken = None, item.reason == "prev-offset"
            continue
        raw = data[at : at + size_of(item)]
        assert raw.endswith(item.body)
        assert item.item_size == len(item.body)
        assert item.version == version
        if item.type_number != ERASED:
            assert item.checksum == right_checksum(raw, version)
        if before is not None:
            # Entries that are displaced together with one that was reported are not reported again.
            assert broken or item.prev_offset == before
            broken = item.prev_offset != before
        before = at


def assert_agrees(found: FileCheck, items: list[LogEntry | Damage]) -> None:
    good, bad = entries(items), damages(items)
    totals = {pair: (t.entries, t.total_bytes, t.least_bytes, t.most_bytes) for pair, t in found.totals.items()}
    sizes: dict[int, list[int]] = {}
    for entry in good:
        sizes.setdefault(entry.type_number | entry.flags << 8, []).append(size_of(entry))
    assert totals == {pair: (len(s), sum(s), min(s), max(s)) for pair, s in sizes.items()}
    assert [seen.damage for seen in found.damages] == bad
    commits = [entry.lsn for entry in good if entry.type_number == 17]
    for seen in found.damages:
        assert seen.after.commits == sum(lsn >= seen.damage.lsn for lsn in commits)
    assert found.last_offset == (good[-1].lsn & 0xFFFFFFFF if good else -1)
    assert found.end_offset == (found.last_offset + size_of(good[-1]) if good else 0)
    assert list(found.invisible) == [(e.lsn & 0xFFFFFFFF, e.vlsn) for e in good if e.invisible]
    assert list(found.erased) == [e.lsn & 0xFFFFFFFF for e in good if e.type_number == ERASED]
    stream = [e.vlsn for e in good if e.replicated and not e.invisible]
    assert found.vlsn_count == len(stream)
    assert (found.first_vlsn, found.last_vlsn) == ((stream[0], stream[-1]) if stream else (-1, -1))
    assert list(found.vlsn_steps_back) == steps_back(items)


def assert_both_ways(data: bytes, *, number: int, is_last: bool, version: int = 26) -> list[LogEntry | Damage]:
    options: dict[str, Any] = {"number": number, "is_last": is_last, "version": version}
    reader = open_bytes(data, **options)
    items = list(reader.entries())
    assert_tiles(items, len(data))
    assert_entries_are_real(items, data, reader.version)
    assert_agrees(check(data, **options), items)
    at_start = [d for d in damages(items) if d.lsn == number << 32 and d.reason != "file-number"]
    assert (reader.header is None) == (bool(at_start) or (is_last and not data))
    for window in WINDOWS[:-1]:
        assert list(open_bytes(data, window=window, **options).entries()) == items
        assert check(data, window=window, **options) == check(data, **options)
    return items


@pytest.mark.parametrize("file", golden_files(), ids=str)
def test_golden_files(file: GoldenFile) -> None:
    items = assert_both_ways(file.data, number=file.number, is_last=file.is_last)
    assert len(damages(items)) == (file.is_last and file.environment.endswith(("corrupt-middle", "torn-cut-mid")))


@st.composite
def damaged(draw: st.DrawFn) -> tuple[GoldenFile, bytes]:
    """A golden file with one to four changes of its bytes."""
    file = draw(st.sampled_from(SMALL))
    data = bytearray(file.data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.one_of(st.integers(0, len(data)), st.integers(0, min(80, len(data)))))
        length = draw(st.one_of(st.integers(1, 60), st.integers(1, 5000)))
        kind = draw(st.sampled_from(("flip", "flip", "zero", "cut", "insert", "remove", "repeat", "swap", "type")))
        if kind == "flip" and at < len(data):
            data[at] ^= draw(st.integers(1, 255))
        elif kind == "zero":
            data[at : at + length] = bytes(len(data[at : at + length]))
        elif kind == "cut":
            del data[at:]
        elif kind == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=40))
        elif kind == "remove":
            del data[at : at + length]
        elif kind == "repeat":
            data[at:at] = data[at : at + length]
        elif kind == "swap":
            other = draw(st.integers(0, len(data)))
            data[at : at + length] = data[other : other + length]
        elif kind == "type":
            # A place where an entry begins, made an Erased one: what the eraser does, or a crafted entry.
            index = data.find(b"\x00\x00\x00\x00", at)
            if index > 1:
                data[index - 2] = 43
    return file, bytes(data)


@given(damaged(), st.booleans())
def test_damaged_files(case: tuple[GoldenFile, bytes], is_last: bool) -> None:
    file, data = case
    assert_both_ways(data, number=file.number, is_last=is_last, version=int(file.environment[3:].split("/")[0]))


@given(st.binary(max_size=400), st.booleans(), st.sampled_from((6, 7, 17, 26)))
def test_random_files(data: bytes, is_last: bool, version: int) -> None:
    items = assert_both_ways(data, number=0, is_last=is_last, version=version)
    assert Counter(isinstance(item, LogEntry) for item in items)[True] == 0
