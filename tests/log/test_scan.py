"""Forward and backward over whole environments (R-LOG-43, 44)."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.errors import DamageError, NotFoundError
from engine.format.entry_types import TRACE
from engine.format.lsn import make_lsn
from engine.log.entry import Damage, LogEntry
from engine.log.files import list_log_files
from engine.log.scan import Item, LogScan, scan_log
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from tests.support.environments.oracle import Environment, environments
from tests.support.logs.log_writer import Files, LogWriter, changed, golden, whole

NAMES = [f"{number:08x}.jdb" for number in range(6)]


def reader(files: Files) -> LogScan:
    storage = MemoryStorage(files)
    return scan_log(storage, list_log_files(storage), marker=True)


def lsns(items: list[Item]) -> list[int]:
    return [item.lsn for item in items]


@pytest.mark.parametrize("environment", environments())
def test_backward_is_forward_turned_round(environment: Environment) -> None:
    """Every entry and every stretch of damage, over gaps and the marker file; forward is file after file."""
    storage = DiskStorage(environment.path / "env")
    files = list_log_files(storage)
    log = scan_log(storage, files, marker=True)
    forward = list(log.entries())
    assert list(log.backward(over_gaps=True)) == forward[::-1]
    if environment.path.name != "torn-empty-next-file":
        assert forward == list(environment.read())
    entries = [item for item in forward if isinstance(item, LogEntry) and item.lsn >> 32 != 0x7FFFFFFF]
    if files.missing():
        with pytest.raises(DamageError):
            list(log.backward())
    elif all(isinstance(item, LogEntry) for item in forward):
        assert list(log.backward()) == forward[::-1]
    middle = entries[len(entries) // 2]
    start = forward.index(middle)
    assert list(log.between(middle.lsn).entries()) == forward[start:]
    assert [item for item in log.between(end=middle.lsn).entries() if item.lsn >> 32 != 0x7FFFFFFF] == forward[:start]
    assert list(log.between(middle.lsn).backward(over_gaps=True)) == forward[start::-1]
    assert list(log.between(end=middle.lsn).backward(over_gaps=True)) == forward[: start - 1 : -1]


def test_bounds_of_a_forward_pass() -> None:
    """Start inclusive, finish exclusive; both may be inside files, at their starts, or beyond the log."""
    log = reader(whole())
    everything = list(log.entries())
    for first, last in ((0, 1), (3, 40), (100, 101), (5, len(everything) - 1), (7, 7)):
        start, end = everything[first].lsn, everything[last].lsn
        assert list(log.between(start, end).entries()) == everything[first:last]
    assert list(log.between(make_lsn(2, 0)).entries()) == [item for item in everything if item.lsn >> 32 >= 2]
    assert list(log.between(end=make_lsn(2, 0)).entries()) == [item for item in everything if item.lsn >> 32 < 2]
    assert list(log.between(make_lsn(9, 0)).entries()) == []
    assert list(log.between(end=make_lsn(9, 0)).entries()) == everything
    # An end that is no entry boundary: entries that begin before it.
    behind = everything[40].lsn + 1
    assert list(log.between(end=behind).entries()) == everything[:41]


def test_bounds_of_a_backward_pass() -> None:
    """Both inclusive."""
    log = reader(whole())
    everything = list(log.entries())
    for first, last in ((0, 1), (3, 40), (7, 7), (0, len(everything) - 1)):
        start, end = everything[last].lsn, everything[first].lsn
        assert list(log.between(start, end).backward()) == everything[first : last + 1][::-1]


@pytest.mark.parametrize("piece", [1, 64, 1000])
def test_pieces_of_a_file_fit_together(piece: int) -> None:
    """A backward pass reads a file in pieces; where they are cut makes no difference, damage or not."""
    data = whole()[NAMES[3]]
    taken_out = {**whole(), NAMES[3]: data[:0x34E] + data[0x5DA:]}
    zeros = changed(whole(), NAMES[3], 1000, bytes(500))
    for files in (whole(), golden(), zeros, taken_out, changed(taken_out, NAMES[3], 2000, bytes(9))):
        log = reader(files)._replace(piece_bytes=piece)
        assert list(log.backward()) == list(log.entries())[::-1]


def test_a_start_that_is_no_entry() -> None:
    """The message names the entries on both sides."""
    log = reader(whole())
    at, behind = (item.lsn for item in list(log.between(make_lsn(3, 0)).entries())[5:7])
    inside = log.between(at + 3)
    for go in (inside.entries, inside.backward):
        with pytest.raises(NotFoundError) as error:
            list(go())
        assert error.value.lsn == f"0x3/0x{(at + 3) & 0xFFFFFFFF:x}"
        assert error.value.hint == f"entries near it begin at 0x3/0x{at & 0xFFFF:x} and 0x3/0x{behind & 0xFFFF:x}"
        assert error.value.file == f"memory:/{NAMES[3]}"
    with pytest.raises(NotFoundError):
        list(log.between(make_lsn(3, 1 << 30)).entries())


def test_a_gap() -> None:
    """Forward steps over it. Backward stops in words that name both sides, unless told to go on or done before it."""
    files = whole()
    del files[NAMES[2]], files[NAMES[3]]
    log = reader(files)
    everything = list(log.entries())
    assert {item.lsn >> 32 for item in everything} == {0, 1, 4, 5}
    behind = [item for item in everything[::-1] if item.lsn >> 32 >= 4]
    backward = log.backward()
    assert [next(backward) for _ in behind] == behind
    with pytest.raises(DamageError) as error:
        next(backward)
    assert error.value.what == "cannot read backward over cleaned file"
    assert (error.value.expected, error.value.found) == ("file 0x3 before it", "file 0x1")
    assert error.value.lsn == "0x4/0x0"
    assert error.value.file == f"memory:/{NAMES[4]}"
    assert list(log.backward(over_gaps=True)) == everything[::-1]
    # The finish lies after the gap, or the start before it.
    assert list(log.between(end=make_lsn(4, 0)).backward()) == [
        item for item in everything[::-1] if item.lsn >> 32 >= 4
    ]
    assert list(log.between(end=make_lsn(3, 0)).backward()) == [
        item for item in everything[::-1] if item.lsn >> 32 >= 4
    ]
    before = [item for item in everything if item.lsn >> 32 <= 1]
    assert list(log.between(before[-1].lsn).backward()) == before[::-1]


def test_the_marker_is_behind_no_gap() -> None:
    """7fffffff.jdb stands after the last file: no file is missing between them."""
    files = whole()
    marker = LogWriter()
    marker.next_file(0x7FFFFFFF)
    files["7fffffff.jdb"] = marker.now.data
    log = reader(files)
    assert list(log.backward()) == list(log.entries())[::-1]
    assert lsns(list(log.entries()))[-1] == 0x7FFFFFFF << 32


def test_an_entry_by_its_lsn() -> None:
    log = reader(changed(whole(), NAMES[3], 1000, b"????"))
    everything = list(log.entries())
    for item in everything:
        assert log.entry_at(item.lsn) == (item if isinstance(item, LogEntry) else None)
    assert sum(isinstance(item, Damage) for item in everything) == 1
    for nowhere in (everything[0].lsn + 1, make_lsn(77, 0), make_lsn(3, 1 << 30), -1):
        assert log.entry_at(nowhere) is None


def test_an_entry_by_its_lsn_costs_no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file of megabytes some kilobytes are read, and a long entry a few times."""
    writer, read = LogWriter(), Counter[str]()
    places = [writer.add(TRACE, bytes(length)) for length in (10, 5_000, 300_000)]
    for _ in range(20):
        writer.add(TRACE, bytes(100_000))
    storage = MemoryStorage(writer.files)
    open_file = storage.open

    class Counted:
        def __init__(self, path: str) -> None:
            self._file = open_file(path)
            self.path, self.size, self.close = self._file.path, self._file.size, self._file.close

        def read(self, offset: int, length: int) -> bytes:
            data = self._file.read(offset, length)
            read["bytes"] += len(data)
            return data

    monkeypatch.setattr(MemoryStorage, "open", lambda _, path: Counted(path))
    log = scan_log(storage, list_log_files(storage))
    for place, most in zip(places, (20_000, 30_000, 1_000_000), strict=True):
        read.clear()
        found = log.entry_at(place)
        assert found is not None
        assert 0 < read["bytes"] < most


def test_damage_at_the_start_and_at_the_end_of_a_pass() -> None:
    files = changed(whole(), NAMES[3], 0, bytes(38))
    log = reader(files)
    everything = list(log.entries())
    assert list(log.backward()) == everything[::-1]
    assert {item.version for item in everything if isinstance(item, LogEntry)} == {17}
    (damage,) = [item for item in everything if isinstance(item, Damage)]
    assert (damage.lsn, damage.end_lsn) == (make_lsn(3, 0), make_lsn(3, 38))
    assert next(log.between(make_lsn(3, 0)).entries()) == damage
    assert list(log.between(end=make_lsn(3, 0)).backward())[-1] == damage


@pytest.mark.parametrize("number", [0, 3, 5])
def test_a_header_of_zeros_leaves_the_version_of_the_files_beside(number: int) -> None:
    """Whichever way the file is opened: alone, forward, backward."""
    files = changed(whole(), NAMES[number], 0, bytes(38))
    storage = MemoryStorage(files)
    found = list_log_files(storage)
    log = scan_log(storage, found, marker=True)
    one = log.of_file(found.files[number])
    assert one.head().version == 17
    alone = list(one.entries())
    assert [item for item in log.entries() if item.lsn >> 32 == number] == alone
    assert [item for item in log.backward() if item.lsn >> 32 == number] == alone[::-1]
    below = {f"data001/{name}": data for name, data in files.items()}
    storage = MemoryStorage(below)
    found = list_log_files(storage)
    assert scan_log(storage, found).of_file(found.files[number]).head().version == 17
    only = MemoryStorage({NAMES[0]: bytes(38) + whole()[NAMES[0]][38:]})
    assert scan_log(only, list_log_files(only)).of_file(list_log_files(only).files[0]).head().version == 26
