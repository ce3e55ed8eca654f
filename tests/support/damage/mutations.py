"""Mutations of real JE environments: what disks, operators and defects do to log files, one or two at a time.

The sources are the environments of the corpus and of ``tests/golden``, of log versions 6 to 26: closed and halted,
replicated, cleaned, with duplicates, with damage. A seed decides the source and the mutation.

Example: ``mutation(7)`` may be ``je/je-26/times`` with one bit of a BIN flipped and the entry's checksum made right.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from engine.errors import UnsupportedError
from engine.format.entry_types import FILE_HEADER
from engine.format.header import (
    FLAGS_AT,
    HEADER_BYTES,
    HEADER_WITH_VLSN_BYTES,
    PREV_AT,
    SIZE_AT,
    TYPE_AT,
    VLSN_AT,
    entry_checksum,
)
from engine.format.lsn import offset_of
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.reader import FileReader
from engine.storage.memory import MemoryStorage
from tests.support import corpus
from tests.support.damage.extremes import forged_entries
from tests.support.logs.golden_logs import GOLDEN
from tests.support.logs.log_writer import Files

# Larger environments take too long for what they add.
_MOST_BYTES: Final = 400_000
# Environments up to this size are chosen equally often, larger ones in proportion less.
_SMALL_BYTES: Final = 64_000
_SECTOR: Final = 512
# One mutation in this many is followed by a second one.
_SECOND: Final = 5


class Place(NamedTuple):
    """Where a log entry stands: its header's length, its whole length and its log version."""

    path: str
    offset: int
    header_bytes: int
    total_bytes: int
    version: int
    type_number: int


class Mutation(NamedTuple):
    """A mutated environment.

    Attributes:
        source: the environment, below the corpus or ``tests/golden``.
        what: the mutations in words.
        files: the log files by name.
    """

    source: str
    what: str
    files: Files


class Draft:
    """Files of an environment while they are mutated.

    Arguments:
        rng: decides everything.
        files: the log files by name.
        places: the entries of the files before any mutation.
        entries: decoded entries, one list for each type.
    """

    def __init__(self, rng: random.Random, files: Files, places: list[Place]) -> None:
        self.rng = rng
        self.files = {name: bytearray(data) for name, data in files.items()}
        self.places = places

    def name(self) -> str:
        """One of the files that are left; the last one in one of three cases."""
        names = sorted(self.files)
        return names[-1] if self.rng.random() < 1 / 3 else self.rng.choice(names)

    def place(self) -> Place | None:
        """An entry that still stands in a file: rare types as often as frequent ones in half of all cases."""
        standing = [one for one in self.places if len(self.files.get(one.path, b"")) >= one.offset + one.total_bytes]
        if not standing:
            return None
        if self.rng.random() < 1 / 2:
            kind = self.rng.choice(sorted({one.type_number for one in standing}))
            standing = [one for one in standing if one.type_number == kind]
        return self.rng.choice(standing)

    def seal(self, place: Place, total_bytes: int) -> None:
        """Make the checksum of an entry right."""
        data = self.files[place.path]
        raw = bytes(data[place.offset : place.offset + total_bytes])
        if len(raw) >= HEADER_BYTES:
            struct.pack_into("<I", data, place.offset, entry_checksum(raw, place.version))


def _bit(draft: Draft) -> str:
    name = draft.name()
    data = draft.files[name]
    if not data:
        return ""
    at = draft.rng.randrange(len(data))
    data[at] ^= 1 << draft.rng.randrange(8)
    return f"a bit of {name} at 0x{at:x} flipped"


def _sealed_bit(draft: Draft) -> str:
    place = draft.place()
    if place is None or place.total_bytes == place.header_bytes:
        return ""
    at = place.offset + draft.rng.randrange(place.header_bytes, place.total_bytes)
    draft.files[place.path][at] ^= 1 << draft.rng.randrange(8)
    draft.seal(place, place.total_bytes)
    return f"a bit of {place.path} at 0x{at:x} flipped, sealed"


def _sealed_bytes(draft: Draft) -> str:
    place, rng = draft.place(), draft.rng
    if place is None or place.total_bytes == place.header_bytes:
        return ""
    at = place.offset + rng.randrange(place.header_bytes, place.total_bytes)
    count = min(rng.choice((1, 1, 2, 4, 8)), place.offset + place.total_bytes - at)
    fill = rng.choice((b"\0", b"\xff", b"\x7f", b"\x80", bytes((rng.randrange(256),))))
    draft.files[place.path][at : at + count] = fill * count
    draft.seal(place, place.total_bytes)
    return f"{count} bytes of {place.path} at 0x{at:x} are {fill.hex()}, sealed"


def _number(draft: Draft) -> str:
    """A number of an entry at an extreme: in place, or in a copy at the end of the log."""
    place, rng = draft.place(), draft.rng
    if place is None:
        return ""
    storage = MemoryStorage({name: bytes(data) for name, data in draft.files.items()})
    file = next(one for one in list_log_files(storage).files if one.path == place.path)
    try:
        with FileReader(storage, file, is_last=True) as reader:
            item = next((one for one in reader.entries() if offset_of(one.lsn) == place.offset), None)
    except UnsupportedError:
        # An earlier mutation has changed the version.
        return ""
    forged = list(forged_entries(item)) if isinstance(item, LogEntry) else []
    if not forged:
        return ""
    field, value, raw = rng.choice(forged)
    what = f"{field} of the entry at {place.path} 0x{place.offset:x} is {value}"
    if len(raw) == place.total_bytes and (place.type_number == FILE_HEADER or rng.random() < 1 / 2):
        draft.files[place.path][place.offset : place.offset + place.total_bytes] = raw
        return what
    _append(draft, raw)
    return f"{what}, in a copy at the end"


def _header(draft: Draft) -> str:
    place, rng = draft.place(), draft.rng
    if place is None:
        return ""
    data, at = draft.files[place.path], place.offset
    field = rng.choice(("type", "flags", "prev", "size", "vlsn"))
    total = place.total_bytes
    if field == "type":
        data[at + TYPE_AT] = rng.randrange(256) if rng.random() < 1 / 4 else rng.randrange(1, 46)
    elif field == "flags":
        data[at + FLAGS_AT] ^= 1 << rng.randrange(8)
    elif field == "prev":
        struct.pack_into("<I", data, at + PREV_AT, _near(rng, place.offset))
    elif field == "size":
        size = _near(rng, place.total_bytes - place.header_bytes)
        struct.pack_into("<I", data, at + SIZE_AT, size)
        total = place.header_bytes + size
    elif place.header_bytes == HEADER_WITH_VLSN_BYTES:
        (before,) = struct.unpack_from("<q", data, at + VLSN_AT)
        struct.pack_into("<q", data, at + VLSN_AT, rng.choice((before + 1, before - 1, 0, -1, 1 << 40, before + 1000)))
    else:
        return ""
    if at + total <= len(data):
        draft.seal(place, total)
    return f"{field} in the header of {place.path} 0x{at:x} changed, sealed where it can be"


def _near(rng: random.Random, value: int) -> int:
    """An unsigned number of 32 bits: an extreme, or one close to the right one."""
    return rng.choice((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, max(0, value - 1), value + 1, value // 2, value * 2))


def _cut(draft: Draft) -> str:
    name = draft.name()
    at = draft.rng.randrange(len(draft.files[name]) + 1)
    starts = [place.offset for place in draft.places if place.path == name and place.offset <= len(draft.files[name])]
    if starts and draft.rng.random() < 1 / 3:
        at = draft.rng.choice(starts)
    del draft.files[name][at:]
    return f"{name} cut at 0x{at:x}"


def _stretch(draft: Draft) -> str:
    """Zeros, garbage, or a stretch of another place over a sector or a part of one."""
    name, rng = draft.name(), draft.rng
    data = draft.files[name]
    if not data:
        return ""
    length = rng.choice((4, 40, _SECTOR, 8 * _SECTOR))
    at = rng.randrange(len(data)) // (_SECTOR if length >= _SECTOR else 1) * (_SECTOR if length >= _SECTOR else 1)
    length = min(length, len(data) - at)
    other = draft.files[draft.name()]
    where = rng.randrange(len(other) + 1) // _SECTOR * _SECTOR
    kind, fill = rng.choice(
        (
            ("zeros", bytes(length)), ("garbage", rng.randbytes(length)), ("0xff", b"\xff" * length),
            ("bytes of another place", bytes(other[where : where + length])),
            ("bytes of the same place in another file", bytes(other[at : at + length])),
        )
    )  # fmt: skip
    data[at : at + len(fill)] = fill
    return f"{kind}: {len(fill)} bytes of {name} at 0x{at:x}"


def _entry(draft: Draft) -> str:
    """An entry is taken out, stands twice, or changes places with the next: what follows moves."""
    place, rng = draft.place(), draft.rng
    if place is None:
        return ""
    data, end = draft.files[place.path], place.offset + place.total_bytes
    kind = rng.choice(("deleted", "doubled", "moved to the end of the file"))
    raw = data[place.offset : end]
    if kind == "deleted":
        del data[place.offset : end]
    elif kind == "doubled":
        data[end:end] = raw
    else:
        del data[place.offset : end]
        data += raw
    return f"the entry at {place.path} 0x{place.offset:x} {kind}"


def _stale(draft: Draft) -> str:
    """An earlier entry is logged again at the end of the log, rightly linked."""
    place = draft.place()
    if place is None or place.type_number == FILE_HEADER:
        return ""
    _append(draft, bytes(draft.files[place.path][place.offset : place.offset + place.total_bytes]))
    return f"the entry at {place.path} 0x{place.offset:x} logged again at the end"


def _append(draft: Draft, raw: bytes) -> None:
    """Put an entry after the last one of the last file that has any; what follows there is cut off."""
    last = max(draft.places, key=lambda place: (place.path, place.offset))
    data = draft.files.get(last.path)
    if data is None or len(data) < last.offset + last.total_bytes:
        return
    end = last.offset + last.total_bytes
    entry = bytearray(raw)
    struct.pack_into("<I", entry, PREV_AT, last.offset)
    struct.pack_into("<I", entry, 0, entry_checksum(bytes(entry), last.version))
    data[end:] = entry


def _file(draft: Draft) -> str:
    """A whole file is deleted, emptied, copied under another number, or changes places with another."""
    names, rng, files = sorted(draft.files), draft.rng, draft.files
    name, other = rng.choice(names), rng.choice(names)
    kind = rng.choice(("deleted", "deleted", "emptied", "swapped", "copied", "copied after the end", "extra"))
    if kind == "deleted":
        if len(names) == 1:
            return ""
        del files[name]
    elif kind == "emptied":
        files[name] = bytearray()
    elif kind == "swapped":
        files[name], files[other] = files[other], files[name]
    elif kind == "copied":
        files[other] = bytearray(files[name])
    elif kind == "copied after the end":
        files[f"{int(names[-1][:8], 16) + 1:08x}.jdb"] = bytearray(files[name])
    else:
        number = int(names[-1][:8], 16) + rng.choice((1, 1, 2, 16))
        files[f"{number:08x}.jdb"] = bytearray(rng.choice((b"", bytes(40), files[name][:32], rng.randbytes(100))))
    return f"{name} {kind} ({other})" if kind in ("swapped", "copied") else f"{name} {kind}"


def _tail(draft: Draft) -> str:
    rng, name = draft.rng, max(draft.files)
    more = rng.choice((bytes(rng.randrange(1, 600)), rng.randbytes(rng.randrange(1, 600))))
    draft.files[name] += more
    return f"{len(more)} bytes after the end of {name}"


_KINDS: Final[tuple[Callable[[Draft], str], ...]] = (
    _bit, _bit, _sealed_bit, _sealed_bit, _sealed_bytes, _sealed_bytes, _number, _number, _header, _header,
    _cut, _stretch, _entry, _stale, _file, _file, _tail,
)  # fmt: skip


@cache
def sources() -> dict[str, Path]:
    """The environments by name."""
    found = {
        manifest.parent.relative_to(corpus.path()).as_posix(): manifest.parent / "env"
        for kept in ("je", "je-healthy")
        for manifest in sorted((corpus.path() / kept).rglob("manifest.json"))
    }
    # These are not in the corpus.
    found |= {f"golden/{name}": GOLDEN / name for name in ("je-17/indexed", "je-26/blind", "je-26/times")}
    return {name: path for name, path in found.items() if 0 < _size(path) <= _MOST_BYTES}


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.glob("*.jdb"))


@cache
def files_of(name: str) -> Files:
    """The log files of a source; a restore marker is one of them."""
    return {file.name: file.read_bytes() for file in sorted(sources()[name].glob("*.jdb"))}


@cache
def _places(name: str) -> list[Place]:
    storage = MemoryStorage(files_of(name))
    files, found = list_log_files(storage), []
    for file in files.files:
        with FileReader(storage, file, is_last=file.number >= files.end_file()) as reader:
            found += [
                Place(
                    path=file.path, offset=offset_of(item.lsn), header_bytes=item.total_bytes - len(item.body),
                    total_bytes=item.total_bytes, version=item.version, type_number=item.type_number,
                )
                for item in reader.entries()
                if isinstance(item, LogEntry)
            ]  # fmt: skip
    return found


@cache
def _choice() -> tuple[list[str], list[float]]:
    names = sorted(sources())
    return names, [1 / max(_SMALL_BYTES, _size(sources()[name])) for name in names]


def mutation(seed: int) -> Mutation:
    """The mutation of a seed."""
    rng = random.Random(seed)
    names, weights = _choice()
    source = rng.choices(names, weights)[0]
    draft = Draft(rng, files_of(source), _places(source))
    done: list[str] = []
    while not done or (len(done) == 1 and rng.randrange(_SECOND) == 0):
        # Some kinds do not fit: nothing has happened, and another one is chosen.
        done += filter(None, (rng.choice(_KINDS)(draft),))
    return Mutation(
        source=source, what="; ".join(done), files={name: bytes(data) for name, data in draft.files.items()}
    )
