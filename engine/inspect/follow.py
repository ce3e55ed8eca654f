"""Following a log while another process writes it (``dump-log --follow``).

The last file grows, and then a new one appears. Bytes at the end that are not a whole entry belong to an entry that is
still being written. They are read again after a pause, and count as damage only when a later file shows that the writer
has moved on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from engine.format.lsn import NULL_LSN, file_of, make_lsn, offset_of
from engine.log.entry import Damage, LogEntry
from engine.log.files import LogFile, LogFiles, list_log_files
from engine.log.reader import FileReader
from engine.storage.base import Storage

PAUSE_S: Final = 0.25


def follow(
    storage: Storage, start: int = NULL_LSN, pause: Callable[[], None] = lambda: time.sleep(PAUSE_S)
) -> Iterator[LogEntry | Damage | None]:
    """Yield the entries from ``start`` on, then newly appended entries, until the caller stops.

    Arguments:
        storage: the environment.
        start: LSN of an entry; NULL_LSN begins at the current end of the log.
        pause: called to wait between two reads of the files.

    Yields:
        Entries and damage; None before each pause, so that the caller can flush its output.
    """
    position = start if start != NULL_LSN else _end(storage)
    prev = -1
    while True:
        files = list_log_files(storage)
        moved = False
        for item, after, last in _new_items(storage, files, position, prev):
            yield item
            position, prev, moved = after, last, True
        following = next((file for file in files.files if file.number > file_of(position)), None)
        # A later file exists, and this file has no more entries: it is finished.
        if not moved and following is not None:
            position, prev = make_lsn(following.number, 0), -1
        elif not moved:
            yield None
            pause()


def _new_items(
    storage: Storage, files: LogFiles, position: int, prev: int
) -> Iterator[tuple[LogEntry | Damage, int, int]]:
    """The items from a position to the end of its file, each with the next position and the offset of the
    last entry.
    """
    file = files.find(file_of(position))
    if file is None or offset_of(position) >= file.size_bytes:
        return
    newest = file is files.files[-1]
    with FileReader(storage, file, is_last=newest) as reader:
        for item in reader.entries(offset_of(position), None, prev):
            if isinstance(item, Damage):
                # The bytes may be an entry that is still being written. If a later file appears, these bytes are
                # damage.
                if newest and not item.has_next:
                    return
                yield item, item.end_lsn, -1
            else:
                after = item.lsn + item.total_bytes
                yield item, after, offset_of(item.lsn)


def end_of_last(storage: Storage, last: LogFile, at: int) -> int:
    """The end of the last whole entry in the last file; ``at`` is an entry boundary."""
    with FileReader(storage, last, is_last=True) as reader:
        for item in reader.entries(at):
            if isinstance(item, LogEntry):
                at = offset_of(item.lsn) + item.total_bytes
            elif item.has_next:
                at = offset_of(item.end_lsn)
            else:
                break
    return at


def _end(storage: Storage) -> int:
    files = list_log_files(storage)
    if not files.files:
        return 0
    last = files.files[-1]
    return make_lsn(last.number, end_of_last(storage, last, 0))
