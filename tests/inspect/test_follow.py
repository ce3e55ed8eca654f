"""Following a log while it is written: every entry once, in order, and no damage that is an entry being written."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from engine.format.lsn import make_lsn
from engine.inspect.follow import follow
from engine.log.entry import Damage, LogEntry
from engine.log.files import list_log_files
from engine.log.scan import scan_log
from engine.storage.memory import MemoryStorage
from tests.support.logs.log_writer import Files, LogWriter, changed, golden, whole

Item = LogEntry | Damage


class Writer:
    """Writes files piece by piece, a piece whenever the follower pauses.

    Arguments:
        files: what is to be there in the end.
        sizes: of the pieces.
        already: bytes that are there from the beginning.
    """

    def __init__(self, files: Files, sizes: Iterator[int], already: int = 1) -> None:
        self.storage = MemoryStorage()
        self.left = list(files.items())
        self.sizes = sizes
        self.done = 0
        self.idle = 0
        self.append(already)

    def append(self, length: int) -> None:
        """Write so many bytes, over the end of a file into the next."""
        while self.left and length > 0:
            name, data = self.left[0]
            handle = self.storage.open_rw(name, create=True)
            piece = data[handle.size() : handle.size() + length]
            handle.write(handle.size(), piece)
            length -= len(piece)
            if handle.size() == len(data):
                del self.left[0]
                if self.left and length <= 0:
                    # A new file may be there before anything is in it.
                    self.storage.open_rw(self.left[0][0], create=True)

    def pause(self) -> None:
        """What the follower calls instead of sleeping."""
        if self.left:
            self.append(next(self.sizes))
        else:
            self.idle += 1


def followed(writer: Writer, start: int = 0) -> list[Item]:
    """Everything that a follower yields until the writer has been done for three looks."""
    found: list[Item] = []
    for item in follow(writer.storage, start, writer.pause):
        if item is not None:
            found.append(item)
        elif writer.idle >= 3:
            return found
    raise AssertionError


def forward(files: Files) -> list[Item]:
    storage = MemoryStorage(files)
    return list(scan_log(storage, list_log_files(storage), marker=True).entries())


def sizes(seed: int, largest: int) -> Iterator[int]:
    chance = random.Random(seed)
    while True:
        yield chance.randrange(1, largest)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("largest", [400, 3000, 30000])
def test_pieces_of_any_size(seed: int, largest: int) -> None:
    """Cut inside headers, bodies and file headers, and over file changes."""
    found = followed(Writer(whole(), sizes(seed, largest)))
    assert found == forward(whole())


@pytest.mark.parametrize("step", [1, 7, 22])
def test_byte_by_byte(step: int) -> None:
    log = LogWriter()
    for number in range(3):
        log.trace("x" * number)
        log.commit(number + 1)
        log.next_file()
    log.trace()
    found = followed(Writer(log.files, iter([step] * len(log.files) * 1000)))
    assert found == forward(log.files)


def test_every_version() -> None:
    for name in ("je-6/empty", "je-15/xa-prepared", "je-26/empty", "je-17/rollback-four-periods"):
        files = golden(name)
        assert followed(Writer(files, sizes(1, 900))) == forward(files)


def test_from_the_end_of_what_is_there() -> None:
    """Without a start only what is appended; what stood half-written at the end is read when it is whole."""
    files = whole()
    everything = forward(files)
    already = sum(len(files[f"{number:08x}.jdb"]) for number in range(3)) + 1000
    found = followed(Writer(files, sizes(3, 500), already), -1)
    assert found == [item for item in everything if item.lsn >= found[0].lsn]
    first = next(
        item for item in everything if isinstance(item, LogEntry) and item.lsn + item.total_bytes > make_lsn(3, 1000)
    )
    assert found[0] == first


def test_from_an_entry() -> None:
    everything = forward(whole())
    assert followed(Writer(whole(), sizes(5, 700)), everything[77].lsn) == everything[77:]


def test_damage_is_told_when_a_later_file_shows_that_the_writer_went_on() -> None:
    """Not before: until then it may be an entry being written."""
    files = whole()
    cut = {**files, "00000002.jdb": files["00000002.jdb"][:-10]}
    found = followed(Writer(cut, sizes(2, 600)))
    assert found == forward(cut)
    (damage,) = [item for item in found if isinstance(item, Damage)]
    assert (damage.path, damage.reason) == ("00000002.jdb", "cut")
    torn = golden()
    assert [item for item in followed(Writer(torn, sizes(2, 600))) if isinstance(item, Damage)] == []


def test_damage_that_a_good_entry_follows() -> None:
    """In the newest file too: what follows has been written, so that nobody is still writing the bad one."""
    bad = changed(whole(), "00000005.jdb", 500, b"????")
    found = followed(Writer(bad, iter([10**6])))
    assert found == forward(bad)
    assert sum(isinstance(item, Damage) for item in found) == 1


def test_a_gap_in_the_file_numbers() -> None:
    log = LogWriter()
    log.trace()
    log.next_file(7)
    log.trace()
    assert followed(Writer(log.files, sizes(1, 30))) == forward(log.files)


def test_nothing_is_lost_between_the_last_look_and_a_new_file() -> None:
    """The writer ends a file and begins the next in one go while the follower thinks the old one is the newest."""
    log = LogWriter()
    log.trace("first")
    first = len(log.now.data)
    log.trace("second")
    log.next_file()
    log.trace("third")
    found = followed(Writer(log.files, iter([10**6]), first))
    assert found == forward(log.files)


def test_a_none_before_each_pause() -> None:
    """So that the caller can hand on what it has."""
    pauses: list[None] = []
    writer = Writer(whole(), sizes(1, 5000))

    def pause() -> None:
        pauses.append(None)
        writer.pause()

    nones = 0
    steps: Callable[[], None] = pause
    for item in follow(writer.storage, 0, steps):
        if item is None:
            assert nones == len(pauses)
            nones += 1
            if nones == 10:
                break
