"""A ticker of the main thread: it redraws a progress bar while one step takes long.

The ticks are ``SIGALRM`` of the interval timer of the process, and not a thread, because a fork would copy a thread in
an unknown state; a child process inherits no timer. Python calls the handler between two instructions of the main
thread, so a tick comes late, and never twice, if a call of C takes longer than the interval:

    0.0 s  step("read log", 280, 293)     draws, starts the ticker
    0.5 s  tick                           draws the same step with its new time
    1.7 s  tick, after a call of 0.9 s
    1.9 s  pause()                        erases, stops the ticker

System calls of C code are restarted after a tick (``SA_RESTART``), and those of Python are by Python itself.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType


class Ticker:
    """Calls a function at an interval.

    It does nothing outside of the main thread, where the platform has no interval timer, and where other code of the
    process handles ``SIGALRM``.

    Arguments:
        interval_s: seconds between two ticks.
        tick: is called between two instructions of any code of the main thread: it must not raise.
    """

    def __init__(self, interval_s: float, tick: Callable[[], None]) -> None:
        self._interval_s = interval_s
        self._tick = tick
        self._runs = False

    def start(self) -> None:
        """Tick from now on, until ``stop``. A second start is harmless."""
        if (
            self._runs
            or not hasattr(signal, "setitimer")
            or threading.current_thread() is not threading.main_thread()
            or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL
        ):
            return
        self._runs = True
        signal.signal(signal.SIGALRM, self._handle)
        signal.siginterrupt(signal.SIGALRM, False)
        signal.setitimer(signal.ITIMER_REAL, self._interval_s, self._interval_s)

    def stop(self) -> None:
        """Tick no more. A second stop is harmless.

        In another thread it does nothing: the ticks go on until the main thread stops them.
        """
        if self._runs and threading.current_thread() is threading.main_thread():
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            self._runs = False

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self._tick()
