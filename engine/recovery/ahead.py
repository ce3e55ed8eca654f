"""Work of recovery in a forked process, ahead of this one: what is found there comes back through a pipe.

Two things need nothing but what recovery knows by then, and change nothing. The checksums of the range can be computed
while analysis walks over it; and what redo needs of the log, the records of committed transactions sorted by key, can
be found while this process undoes, and works at the trees. A fork of this process does that. A message is what belongs
together, such as a batch of sorted records. When the fork ends before it has said that it is done, whatever the cause,
recovery goes on by itself after the last message, and meets the same entries, and the same errors, in this process.
"""

from __future__ import annotations

import contextlib
import gc
import marshal
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import Any, Final

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
