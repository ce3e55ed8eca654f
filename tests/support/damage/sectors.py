"""What a crash leaves when sectors reach the disk in any order: lost, torn, reordered.

Of every file each sector of 512 bytes is found as one of the changes since its last sync has left it, or as it was
then. The length is that after one of these changes, or the end of a sector in between; what has not reached the disk
below it reads as zeros. Names change in their order, as the journals of file systems have it, whatever happens to
contents; a name that is not durable may be there or not.

Example: ``write 0..1000 | sync | write 1000..3000 (a Commit at its end)``, crash: the file may have 1000, 1024,
1536 ... 3000 bytes, and the sector of the Commit may be there although the two before it are zeros.
"""

from __future__ import annotations

import random
from typing import Final

from engine.storage.crash import CrashStorage, UnsyncedChange
from engine.storage.memory import MemoryStorage

SECTOR: Final = 512
_NAMES: Final = ("create", "rename", "remove")


class _Versions:
    """What the disk may hold of one file: the versions of each sector that was changed, and the lengths.

    Arguments:
        durable: the contents at the last sync.
    """

    def __init__(self, durable: bytes) -> None:
        self._durable = durable
        self._now = bytearray(durable)
        self._lengths = [len(durable)]
        self._sectors: dict[int, list[bytes]] = {}

    def change(self, change: UnsyncedChange) -> None:
        """A write or a truncation."""
        start, before = change.offset, len(self._now)
        end = start + len(change.data)
        if change.kind == "truncate":
            del self._now[start:]
            self._now.extend(bytes(start - len(self._now)))
            start, end = min(start, before), max(start, before)
        else:
            self._now.extend(bytes(max(0, end - before)))
            self._now[start:end] = change.data
            # A gap before the data becomes zeros.
            start = min(start, before) if start > before else start
        self._lengths.append(len(self._now))
        for number in range(start // SECTOR, -(-end // SECTOR)):
            self._sectors.setdefault(number, [_sector(self._durable, number)]).append(_sector(self._now, number))

    def choose(self, chosen: random.Random) -> bytes:
        """Contents that a crash may leave."""
        length = chosen.choice(self._lengths)
        if chosen.random() < 0.5:
            # The length may reach the disk with a part of the data.
            between = chosen.randint(min(self._lengths), length) // SECTOR * SECTOR + SECTOR
            length = min(length, between)
        data = bytearray(self._durable.ljust(-(-max(self._lengths) // SECTOR) * SECTOR, b"\0"))
        # Nearly everything, nearly nothing, or half of it.
        likely = chosen.choice((0.1, 0.5, 0.9))
        for number, (*earlier, last) in self._sectors.items():
            data[number * SECTOR : (number + 1) * SECTOR] = last if chosen.random() < likely else chosen.choice(earlier)
        return bytes(data[:length])


def _sector(data: bytes | bytearray, number: int) -> bytes:
    return bytes(data[number * SECTOR : (number + 1) * SECTOR]).ljust(SECTOR, b"\0")


def sector_image(storage: CrashStorage, seed: int) -> MemoryStorage:
    """The files that a restart would find.

    Arguments:
        seed: chooses among all that is possible.
    """
    chosen = random.Random(seed)
    durable, changes = storage.pending()
    # Files as the process knows them, and under the names that survive.
    now = {path: _Versions(data) for path, data in durable.items()}
    found = dict(now)
    surviving = chosen.randint(0, sum(change.kind in _NAMES for change in changes))
    for change in changes:
        if change.kind not in _NAMES:
            now[change.path].change(change)
            continue
        survives, surviving = surviving > 0, surviving - 1
        for names in (now, found) if survives else (now,):
            if change.kind == "create":
                names.setdefault(change.path, now.get(change.path) or _Versions(b""))
            else:
                file = names.pop(change.path)
                if change.kind == "rename":
                    names[change.data.decode()] = file
    return MemoryStorage({path: file.choose(chosen) for path, file in found.items()}, "crash:")
