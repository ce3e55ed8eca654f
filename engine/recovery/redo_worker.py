"""Work of recovery in a forked process, ahead of this one: what is found there comes back through a pipe.

Two things need nothing but what recovery knows by then, and change nothing. The checksums of the range can be computed
while analysis walks over it; and what redo needs of the log, the records of committed transactions sorted by key, can
be found while this process undoes, and works at the trees. A fork of this process does that. A message is what belongs
together, such as a batch of sorted records. When the fork ends before it has said that it is done, whatever the cause,
recovery goes on by itself after the last message, and meets the same entries, and the same errors, in this process.

Where both processes have time they share what is to be done (``SharedWork``): parts of it have numbers, and whoever is
free takes the next.
"""

from __future__ import annotations

import contextlib
import gc
import marshal
import os
import select
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import Any, Final, NamedTuple

from engine.log.access import LogAccess
from engine.log.passes import LogRange, files_in
from engine.storage.scratch import ScratchFile
from engine.storage.work_queue import MOST_TICKETS, Tickets

# Files of a log are shared so many bytes at a time, at least.
SHARE_BYTES = 24 << 20

_LENGTH: Final = Struct("<Q")
_PIECE_BYTES: Final = 1 << 20
_ENDING: Final = (signal.SIGINT, signal.SIGTERM)


def can_fork() -> bool:
    """Whether a fork is whole: other threads, and the locks that they hold, would not be in it."""
    return hasattr(os, "fork") and threading.active_count() == 1


class Fork:
    """A fork of this process, which begins at once; ``close`` ends it.

    Arguments:
        produce: what the fork does; gives plain values, and the last one has to say that it is the last.
    """

    def __init__(self, produce: Callable[[], Iterable[Any]]) -> None:
        self._receiving, sending = os.pipe()
        self._poll = select.poll()
        self._poll.register(self._receiving, select.POLLIN)
        # Where the system has no room for a process there is none, and no message comes.
        self._pid = -1
        # A handler of this process must not run in the fork.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        try:
            with contextlib.suppress(OSError):
                self._pid = os.fork()
            if self._pid == 0:
                _work(produce, self._receiving, sending)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(sending)

    def has_message(self) -> bool:
        """Whether ``messages`` gives one, or ends, without waiting long."""
        return bool(self._poll.poll(0))

    def messages(self) -> Iterator[Any]:
        """The values, as far as they come."""
        while len(head := _read(self._receiving, _LENGTH.size)) == _LENGTH.size:
            length = _LENGTH.unpack(head)[0]
            data = _read(self._receiving, length)
            if len(data) < length:
                return
            yield marshal.loads(data)

    def close(self) -> None:
        """End it, wherever it is. Closing twice is harmless."""
        if self._receiving < 0:
            return
        os.close(self._receiving)
        self._receiving = -1
        if self._pid > 0:
            # Nobody has waited for it yet, so its number cannot be another process's by now.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)


class PartResult(NamedTuple):
    """What came of a part.

    Attributes:
        value: None when it failed, in whichever process.
        scratch: where its bytes are.
    """

    value: Any
    scratch: ScratchFile


class SharedWork:
    """Work that a fork, which begins at once, and this process do together; ``close`` ends it.

    Arguments:
        parts: how many there are, at most ``MOST_TICKETS``.
        work: does the part of a number; gives plain values, and puts into the file what is large.

    Raises:
        StorageError: there is no room for scratch files.
    """

    def __init__(self, parts: int, work: Callable[[int, ScratchFile], Any]) -> None:
        self._parts = parts
        self._work = work
        self._here, self._there = ScratchFile(), ScratchFile()
        # Made before the fork, so that it is one file for both.
        self._there.make()
        self._tickets = Tickets(range(parts))
        self._fork = Fork(self._elsewhere)
        self._messages = self._fork.messages()
        self._done: dict[int, PartResult] = {}

    def results(self) -> Iterator[PartResult]:
        """What came of each part, in their order; this process works while it waits."""
        going = True
        for number in range(self._parts):
            while number not in self._done:
                if going and self._fork.has_message():
                    going = self._receive()
                elif (ticket := self._tickets.take()) is not None:
                    self._done[ticket] = PartResult(_tried(self._work, ticket, self._here), self._here)
                elif going:
                    going = self._receive()
                else:
                    # The fork has taken it, and has ended since.
                    self._done[number] = PartResult(None, self._here)
            yield self._done.pop(number)

    def close(self) -> None:
        """End the fork, and forget everything. Closing twice is harmless."""
        self._fork.close()
        self._tickets.close()
        self._here.close()
        self._there.close()

    def _receive(self) -> bool:
        for number, value in self._messages:
            self._done[number] = PartResult(value, self._there)
            return True
        return False

    def _elsewhere(self) -> Iterator[tuple[int, Any]]:
        while (ticket := self._tickets.take()) is not None:
            yield ticket, _tried(self._work, ticket, self._there)


def _tried(work: Callable[[int, ScratchFile], Any], number: int, scratch: ScratchFile) -> Any:
    """What comes of a part; None where it fails: who does it in its turn meets the same."""
    try:
        return work(number, scratch)
    except Exception:
        return None


def shares_of(access: LogAccess, extent: LogRange) -> list[LogRange]:
    """A range in parts of whole files.

    Raises:
        DamageError: its first file is missing, or one after it.
    """
    files = files_in(access, extent)
    least = max(SHARE_BYTES, sum(file.size_bytes for file in files) // MOST_TICKETS)
    starts, size_bytes = [extent.start], 0
    for file in files:
        if size_bytes >= least:
            starts.append(file.number << 32)
            size_bytes = 0
        size_bytes += file.size_bytes
    return [LogRange(start, end) for start, end in zip(starts, [*starts[1:], extent.end], strict=True)]


def _work(produce: Callable[[], Iterable[Any]], receiving: int, sending: int) -> None:
    """Send messages, and end this process without the parent's cleaning up."""
    try:
        # An interrupt is for the parent, which then ends this process.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        os.close(receiving)
        # It ends soon, and whatever is garbage then goes with it.
        gc.disable()
        for message in produce():
            data = marshal.dumps(message)
            for part in (_LENGTH.pack(len(data)), data):
                rest = memoryview(part)
                while rest:
                    rest = rest[os.write(sending, rest) :]
    except BaseException:
        # The parent meets the same by itself.
        os._exit(1)
    os._exit(0)


def _read(handle: int, length: int) -> bytes:
    """So many bytes; fewer when the other end is closed."""
    pieces = []
    while length > 0 and (piece := os.read(handle, min(length, _PIECE_BYTES))):
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)
