"""Delaying signals that end a run during operations that must complete.

SIGINT and SIGTERM raise an exception anywhere in the program. During a change of a tree, or between a Commit in the log
and its count, this would leave the operation half done. A program that waits for input must end immediately, however,
so the signals are held only briefly.

Example, for each record of a pipe: the read is interrupted, the put is not::

    with HeldSignals() as held:
        for key, data in records:
            held.hold()
            db.put(key, data, txn)
            held.release()
"""

from __future__ import annotations

import signal
import threading
from types import TracebackType
from typing import Any, Final

_ENDING: Final = (signal.SIGINT, signal.SIGTERM)


class HeldSignals:
    """Holds the signals of the main thread; in other threads it does nothing, since signals are not raised there."""

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._holds = False
        self._pending: signal.Signals | None = None

    def __enter__(self) -> HeldSignals:
        """Install the handlers."""
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                before = signal.getsignal(number)
                if before not in (signal.SIG_IGN, None):
                    self._before[number] = before
                    signal.signal(number, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the previous handlers; a held signal is raised now, unless another exception ends the run."""
        self._restore()
        self._holds = False
        if kind is None:
            self._raise()

    def hold(self) -> None:
        """Begin an operation that must complete."""
        self._holds = True

    def release(self) -> None:
        """End the operation; raises a signal that arrived in the meantime."""
        self._holds = False
        if self._pending is not None:
            self._restore()
            self._raise()

    def _hear(self, number: int, _: object) -> None:
        self._pending = signal.Signals(number)
        if not self._holds:
            self._restore()
            self._raise()

    def _restore(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before = {}

    def _raise(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            signal.raise_signal(pending)
