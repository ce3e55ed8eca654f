"""Numbers that several processes take from: to take one is to read from a pipe, which one process does at a time.

The pipe is filled before the first fork, so its numbers must fit into the smallest there is, one page.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from struct import Struct
from typing import Final

_NUMBER: Final = Struct("<I")
MOST_TICKETS: Final = 1000


class Tickets:
    """Numbers, each of which one process gets.

    Arguments:
        numbers: at most ``MOST_TICKETS``.
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
