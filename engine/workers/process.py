"""A worker: a fork of this process that sends messages through a pipe.

This is the only module that forks. These rules hold for every worker:

* SIGINT and SIGTERM are blocked while the process forks, so that no handler of the parent runs in the worker. Then the
  worker ignores SIGINT, which is for the parent, and ends at SIGTERM.
* A message is its length (8 bytes, little-endian), then its bytes. The worker waits while the pipe is full.
* The worker ends with ``os._exit``: nothing that the parent has open is flushed or cleaned up twice. Its exit code is 0
  when all messages are sent. An exception ends it early, and the parent sees the end of the pipe.
* ``end`` kills the worker and waits for it.

Example: a worker that sends ``b"ab"`` writes ``02 00 00 00 00 00 00 00 61 62``.

Workers share a ``WorkQueue`` of numbers. The queue is a pipe, from which one process reads at a time. It is filled
before the first fork, so all numbers must fit into the smallest pipe there is, one page.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import Any, Final

HAS_FORK: Final = hasattr(os, "fork")

MOST_NUMBERS: Final = 1000

_LENGTH: Final = Struct("<Q")
_NUMBER: Final = Struct("<I")
_READ_BYTES: Final = 1 << 20
_ENDING: Final = (signal.SIGINT, signal.SIGTERM)


def can_fork() -> bool:
    """Whether a fork is safe: this process has no other threads, whose locks the fork would copy while they are
    held.
    """
    return HAS_FORK and threading.active_count() == 1


class WorkerProcess:
    """A worker that begins at once; ``end`` ends it.

    Arguments:
        produce: runs in the worker and yields the messages.
        decode: decodes a message, in this process. It must not keep the view that it receives.
        others: workers that were started earlier; the new worker closes their pipes.

    Raises:
        OSError: the system has no room for another process, or no descriptors.
    """

    def __init__(
        self,
        produce: Callable[[], Iterable[bytes]],
        decode: Callable[[memoryview], Any],
        others: Iterable[WorkerProcess] = (),
    ) -> None:
        self._decode = decode
        self._data = bytearray()
        self._values: deque[Any] = deque()
        self._handle, sending = os.pipe()
        self._pid = -1
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        try:
            self._pid = os.fork()
            if self._pid == 0:
                _work(produce, sending, [self._handle, *(one.handle for one in others)])
        except OSError:
            self.end()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            # After this only the worker holds the sending end, so that the pipe ends with the worker.
            os.close(sending)

    @property
    def handle(self) -> int:
        """The descriptor to poll; when it is readable, ``read`` does not wait."""
        return self._handle

    def is_ready(self) -> bool:
        """Whether a value has not been taken yet, or ``read`` would not wait."""
        return bool(self._values) or bool(readable([self], wait=False))

    def read(self) -> bool:
        """Read once, waiting for the worker if necessary; False if it has ended."""
        piece = os.read(self._handle, _READ_BYTES)
        data = self._data
        data += piece
        while len(data) >= _LENGTH.size and len(data) >= (end := _LENGTH.size + _LENGTH.unpack_from(data)[0]):
            with memoryview(data) as whole, whole[_LENGTH.size : end] as view:
                self._values.append(self._decode(view))
            del data[:end]
        return bool(piece)

    def take(self) -> Iterator[Any]:
        """The values of the messages that were read completely, in the order of sending."""
        while self._values:
            yield self._values.popleft()

    def end(self) -> None:
        """Kill the worker, and wait for it. A second call does nothing."""
        if self._handle < 0:
            return
        os.close(self._handle)
        self._handle = -1
        if self._pid > 0:
            # The process has not been reaped yet, so no other process can have its number.
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)


class WorkQueue:
    """Numbers; each is given to one process.

    Arguments:
        numbers: at most ``MOST_NUMBERS``.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        self._handle, writing = os.pipe()
        os.write(writing, b"".join(map(_NUMBER.pack, numbers)))
        # Without a writer the end of the pipe follows the last number.
        os.close(writing)

    def take(self) -> int | None:
        """The next number; None when all are taken."""
        taken = os.read(self._handle, _NUMBER.size)
        return _NUMBER.unpack(taken)[0] if taken else None

    def close(self) -> None:
        """Discard the remaining numbers. Closing twice is harmless."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def readable(workers: Iterable[WorkerProcess], *, wait: bool, longest_ms: int | None = None) -> list[WorkerProcess]:
    """The workers for which ``read`` would not wait now.

    Arguments:
        wait: wait until there is such a worker.
        longest_ms: wait no longer than this; None for no limit.
    """
    # ``poll`` is used instead of ``select``, which refuses descriptors above 1023.
    poll, by_handle = select.poll(), {}
    for worker in workers:
        by_handle[worker.handle] = worker
        poll.register(worker.handle, select.POLLIN)
    return [by_handle[handle] for handle, _ in poll.poll(longest_ms if wait else 0)]


def _work(produce: Callable[[], Iterable[bytes]], sending: int, inherited: Iterable[int]) -> None:
    """Send the messages, and end this process."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        for handle in inherited:
            os.close(handle)
        for message in produce():
            _send(sending, _LENGTH.pack(len(message)))
            _send(sending, message)
    except BaseException:
        # The parent no longer reads, or learns of the error from the end of the pipe.
        os._exit(1)
    os._exit(0)


def _send(handle: int, message: bytes) -> None:
    rest = memoryview(message)
    while rest:
        rest = rest[os.write(handle, rest) :]
