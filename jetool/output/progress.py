"""Progress on standard error: a bar for people, JSON lines for machines, or nothing.

``auto`` draws a bar only on a terminal, only after one second, and only until the command prints its first result on
the same terminal. ``json`` prints a line such as

    {"rec":"progress","step":"scan","done":1048576,"total":8388608,"elapsed_ms":310}
    {"rec":"progress","step":"read","done":7,"total":18,"records":1966080,"elapsed_ms":4071}

at most every half second for a step, and always when the step is done. The second one is of a step whose units are
tasks; the bar shows the records of such a step after it. ``rich`` is loaded when a bar is drawn.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Final, Protocol

from engine.events import Listener, RecordCountListener, SilentListener
from jetool.output.messages import is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_DELAY_S: Final = 1.0
_DRAW_S: Final = 0.1
_REPORT_S: Final = 0.5


class Reporter(Listener, RecordCountListener, Protocol):
    """A listener that may have to leave the terminal."""

    def pause(self) -> None:
        """Erase what is drawn, since a message follows. The next step may draw it again."""

    def close(self) -> None:
        """Erase what is drawn. Steps heard later are ignored. Closing twice is harmless."""


class NoProgress(SilentListener):
    """No progress."""

    __slots__ = ()

    def count(self, name: str, records: int) -> None:
        """Nobody looks."""

    def pause(self) -> None:
        """Nothing is drawn."""

    def close(self) -> None:
        """Nothing is drawn."""


class JsonLines:
    """Progress for machines."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._next: dict[str, float] = {}
        self._records: dict[str, int] = {}

    def count(self, name: str, records: int) -> None:
        """Keep the number for the next line."""
        self._records[name] = records

    def step(self, name: str, done: int, total: int) -> None:
        """Print a line, unless the last one is recent."""
        now = time.monotonic()
        finished = total > 0 and done >= total
        # The last line of a step is never held back: a program waits for it.
        if not finished and now < self._next.get(name, 0.0):
            return
        self._next[name] = now + _REPORT_S
        from jetool.output import jsonl

        elapsed_ms = int((now - self._start) * 1000)
        counted = {"records": self._records[name]} if name in self._records else {}
        report = {"rec": "progress", "step": name, "done": done, "total": total, **counted, "elapsed_ms": elapsed_ms}
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(jsonl.line(report).decode() + "\n")
            sys.stderr.flush()

    def pause(self) -> None:
        """Nothing is drawn."""

    def close(self) -> None:
        """Nothing is drawn."""


class Bar:
    """Progress for people."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _DELAY_S
        self._closed = False
        self._bar: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._records: dict[str, int] = {}

    def count(self, name: str, records: int) -> None:
        """Keep the number for the next time the bar is drawn."""
        self._records[name] = records

    def step(self, name: str, done: int, total: int) -> None:
        """Draw the step, at most ten times a second."""
        now = time.monotonic()
        # Short runs end before the delay and never load ``rich``.
        if self._closed or now < self._next:
            return
        self._next = now + _DRAW_S
        if self._bar is None:
            self._bar = _new_bar()
        if name not in self._tasks:
            self._tasks[name] = self._bar.add_task(name, percent="", records="")
        records = f"{self._records[name]:,} records" if name in self._records else ""
        percent = f"{min(done / total, 1):4.0%}" if total else ""
        self._bar.update(self._tasks[name], completed=done, total=total or None, percent=percent, records=records)
        self._bar.refresh()

    def pause(self) -> None:
        """Erase the bar; the next step draws a new one."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
            self._tasks.clear()

    def close(self) -> None:
        """Erase the bar for good."""
        # Before the pause: a step that another thread reports must not draw a new bar.
        self._closed = True
        self.pause()


def _new_bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[percent]}"),
        TextColumn("{task.fields[records]}"), TimeRemainingColumn(),
    )  # fmt: skip
    # No refresh thread: it would be copied into worker processes in an unknown state.
    bar = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
    bar.start()
    return bar


def make(choice: str, *, quiet: bool) -> Reporter:
    """The listener for a choice of ``--progress``.

    Arguments:
        choice: ``auto``, ``never`` or ``json``.
        quiet: whether ``-q`` was given; it means no bar, JSON lines that were asked for still come.
    """
    if choice == "json":
        return JsonLines()
    if choice == "auto" and not quiet and is_terminal(sys.stderr):
        return Bar()
    return NoProgress()
