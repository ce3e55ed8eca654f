"""Waiting for what other threads and processes do: for the event itself, with one patience for all."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Final, Protocol

# The longest that anything may take on a busy machine.
PATIENCE_S: Final = 90
_FRAMES: Final = 8


class Running(Protocol):
    """What runs beside a test, and should while the test waits for it."""

    def has_ended(self) -> bool:
        """Whether it has ended by itself."""


def eventually(
    look: Callable[[], object],
    wanted: object = None,
    *,
    timeout_s: float = PATIENCE_S,
    running: Iterable[Running] = (),
) -> None:
    """Wait until what is looked at is as wanted, or true when nothing particular is.

    Fails at once when one of ``running`` has ended, and otherwise shows what was seen last and what all threads do.
    """
    watched = list(running)
    deadline = time.monotonic() + timeout_s
    while True:
        over = time.monotonic() > deadline
        ended = [str(one) for one in watched if one.has_ended()]
        seen = look()
        if seen == wanted if wanted is not None else seen:
            return
        what = f"{seen!r} rather than {'something true' if wanted is None else repr(wanted)}"
        assert not ended, f"{what}, and this has ended: {', '.join(ended)}"
        assert not over, f"after {timeout_s} s {what}\n{_threads()}"
        time.sleep(0.01)


def _threads() -> str:
    frames = sys._current_frames()
    parts = []
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.ident in frames:
            stack = traceback.format_stack(frames[thread.ident])[-_FRAMES:]
            parts.append(f"thread {thread.name}:\n{''.join(stack)}")
    return "".join(parts)
