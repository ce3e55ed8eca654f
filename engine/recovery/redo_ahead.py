"""Reading ahead for redo, in a forked process: what is found there comes back through a pipe.

Redo reads the log, finds records of committed transactions, sorts them by key, and brings them into the trees. The
first half needs nothing but what recovery knows by then, and changes nothing: a fork of this process does it while this
one works at the trees. A message is what belongs together, such as a batch of sorted records. When the fork ends before
it has said that it is done, whatever the cause, redo goes on by itself after the last message, and meets the same
entries, and the same errors, in this process.
"""

from __future__ import annotations

import contextlib
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


def messages_of_fork(produce: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    """What a function gives in a fork of this process, as far as it comes.

    Arguments:
        produce: gives plain values; the last one has to say that it is the last.
    """
    receiving, sending = os.pipe()
    # A handler of this process must not run in the fork.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        pid = os.fork()
        if pid == 0:
            _work(produce, receiving, sending)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(sending)
    try:
        while len(head := _read(receiving, _LENGTH.size)) == _LENGTH.size:
            length = _LENGTH.unpack(head)[0]
            data = _read(receiving, length)
            if len(data) < length:
                return
            yield marshal.loads(data)
    finally:
        os.close(receiving)
        # Nobody has waited for it yet, so its number cannot be another process's by now.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _work(produce: Callable[[], Iterable[Any]], receiving: int, sending: int) -> None:
    """Send messages, and end this process without the parent's cleaning up."""
    try:
        # An interrupt is for the parent, which then ends this process.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        os.close(receiving)
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
