"""JE's statistics: whole files, files that grow and are replaced, and files that are none."""

from __future__ import annotations

import random

import pytest

from engine.errors import NotFoundError, UnsupportedError
from engine.monitor.settings import read_settings
from engine.monitor.stat_file import CONFIG_FILE, STAT_FILE, LastRow, read_stat_file
from engine.monitor.stat_summary import summaries
from engine.storage.base import Storage
from engine.storage.memory import MemoryStorage

HEAD = "time,Cache:cacheTotalBytes,Op:priInsert,Jvm:loadAverage\n"
ROWS = (
    "2026-11-28 12:45:27.284 UTC,3159893, ,0.5\n",
    '2026-11-28 12:46:27.284 UTC,4159893,17,"1.5"\n',
    "2026-11-28 12:47:27.284 UTC, ,5,\n",
)


def storage_of(text: str, name: str = STAT_FILE) -> MemoryStorage:
    return MemoryStorage({name: text.encode()})


def append(storage: MemoryStorage, text: str) -> None:
    file = storage.open_rw(STAT_FILE)
    file.write(file.size(), text.encode())


def test_a_whole_file() -> None:
    history = read_stat_file(storage_of(HEAD + "".join(ROWS)), STAT_FILE)
    assert history.columns == ("Cache:cacheTotalBytes", "Op:priInsert", "Jvm:loadAverage")
    assert [row.time for row in history.rows] == [1795869927284, 1795869987284, 1795870047284]
    assert [row.number("Op:priInsert") for row in history.rows] == [0, 17, 5]
    found = {one.name: one for one in summaries(history)}
    inserts = found["Op:priInsert"]
    assert (inserts.least, inserts.median, inserts.largest, inserts.last) == (0, 5, 17, 5)
    assert found["Jvm:loadAverage"].series == (0.5, 1.5, 0)


def test_lines_that_are_no_rows() -> None:
    text = HEAD + ROWS[0] + "1,2\n" + '2026-13-45,x,nan,"inf"\n' + ROWS[1] + "2026-11-28 12:48:27.284 UTC,1,2"
    history = read_stat_file(storage_of(text), STAT_FILE)
    # The last line has no end yet: JE is writing it.
    assert (len(history.rows), history.bad_lines) == (3, 1)
    odd = history.rows[1]
    assert (odd.time, odd.number("Cache:cacheTotalBytes"), odd.number("Op:priInsert")) == (None, None, None)
    assert summaries(history)[1].series == (3159893, None, 4159893)


@pytest.mark.parametrize("text", ["", "time\n", "a,b\n1,2\n", "time,no group\n", HEAD[:-1], "\0\n", "," * 5000 + "\n"])
def test_what_is_no_such_file(text: str) -> None:
    with pytest.raises(UnsupportedError):
        read_stat_file(storage_of(text), STAT_FILE)
    assert LastRow(storage_of(text), STAT_FILE).read() is None


def test_no_file() -> None:
    with pytest.raises(NotFoundError):
        read_stat_file(MemoryStorage(), STAT_FILE)
    assert LastRow(MemoryStorage(), STAT_FILE).read() is None


def test_a_file_that_grows() -> None:
    storage = storage_of(HEAD)
    last = LastRow(storage, STAT_FILE)
    assert last.read() is None
    append(storage, ROWS[0][:20])
    assert last.read() is None
    append(storage, ROWS[0][20:])
    row = last.read()
    assert row is not None
    assert row.number("Cache:cacheTotalBytes") == 3159893
    append(storage, ROWS[1] + ROWS[2])
    row = last.read()
    assert row is not None
    assert (row.number("Op:priInsert"), row.number("Cache:cacheTotalBytes")) == (5, 0)
    assert last.read() is row


def test_a_file_that_je_begins_anew() -> None:
    storage = storage_of(HEAD + "".join(ROWS))
    last = LastRow(storage, STAT_FILE)
    assert last.read() is not None
    storage.remove(STAT_FILE)
    assert last.read() is None
    other = "time,Op:priInsert\n2026-11-28 13:00:00.000 UTC,99\n"
    storage.open_rw(STAT_FILE, create=True).write(0, other.encode())
    row = last.read()
    assert row is not None
    assert row.values == {"Op:priInsert": "99"}


@pytest.mark.parametrize("seed", range(20))
def test_reading_on_gives_the_last_row_of_the_whole(seed: int) -> None:
    """Whatever the pieces in which the file grows."""
    chance = random.Random(seed)
    text = HEAD + "".join(chance.choice(ROWS) for _ in range(30))
    storage = storage_of("")
    last, at = LastRow(storage, STAT_FILE), 0
    while at < len(text):
        piece = text[at : at + chance.randint(1, 90)]
        append(storage, piece)
        at += len(piece)
        found = last.read()
        rows = read_stat_file(storage, STAT_FILE).rows if text[:at].count("\n") else ()
        assert found == (rows[-1] if rows else None)


def settings_of(*rows: str, properties: str = "") -> Storage:
    files = {CONFIG_FILE: "".join(rows).encode(), "je.properties": properties.encode()}
    return MemoryStorage({name: data for name, data in files.items() if data})


def test_settings() -> None:
    head = "time,envcfg:je.freeDisk,envcfg:je.maxMemory,envcfg:je.maxMemoryPercent,java:maxMemory\n"
    row = "2026-11-28 12:45:27.284 UTC,123456,0,60,1000000\n"
    # JE's defaults: from release 18 on it keeps 5 GiB free.
    assert read_settings(settings_of(), 17).disk.free_disk == 5 << 30
    assert read_settings(settings_of(), 12).disk.free_disk == 0
    noted = read_settings(settings_of(head, row), 17)
    assert (noted.disk.free_disk, noted.cache_bytes, noted.problem) == (123456, 600_000, "")
    # je.properties overrides what a program sets.
    told = read_settings(settings_of(head, row, properties="je.freeDisk=7\nje.maxMemory=99\n"), 17)
    assert (told.disk.free_disk, told.cache_bytes) == (7, 99)
    wrong = read_settings(settings_of(head, row, properties="je.freeDisk=much\n"), 17)
    assert (wrong.disk.free_disk, "je.freeDisk is a number" in wrong.problem) == (5 << 30, True)
