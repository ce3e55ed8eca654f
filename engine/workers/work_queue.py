"""A work queue: numbers, each of which one process takes.

The queue is a pipe, from which one process reads at a time. It is filled before the first fork, so all numbers must fit
into the smallest pipe there is, one page.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from struct import Struct
from typing import Final

_NUMBER: Final = Struct("<I")
MOST_NUMBERS: Final = 1000


class WorkQueue:
    """Numbers, each of which one process gets.

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
        """Let go of the rest. Closing twice is harmless."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
