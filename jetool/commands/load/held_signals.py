"""Signals that end a run, held while something is done that has to be whole.

SIGINT and SIGTERM raise wherever the program is. Inside a change of a tree, or between a Commit in the log and the
count of what was committed, that would leave a half of it. What reads its input and waits has to end at once, though,
so the signals are held for moments only.

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
    """The signals of the main thread; in any other thread nothing is held, since no signal is raised there."""

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._holds = False
        self._pending: signal.Signals | None = None

    def __enter__(self) -> HeldSignals:
        """From now on they can be held."""
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
        """As before; what was held and not released comes now, unless something else ends the run."""
        self._restore()
        self._holds = False
        if kind is None:
            self._raise()

    def hold(self) -> None:
        """Begin what has to be whole."""
        self._holds = True

    def release(self) -> None:
        """It is whole: a signal that has come meanwhile is raised here."""
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
