"""Output of a command on standard error in addition to its result: messages and progress.

A message states what happened, where, the consequence, and the next command:

    jetool: warning: entry cannot be read in 0000001f.jdb at 0x1f/0x2a3c; 812 bytes were stepped over
      next: jetool verify --full /data/env

``-q`` leaves errors only, ``-v`` adds details. A message that cannot be written (standard error is closed) is dropped,
because it must not change the result of the run.

Progress is a bar for people, JSON lines for machines, or nothing. ``auto`` draws a bar only on a terminal, at the
earliest one second after the start, and one second after the last result on the same terminal. It is drawn again twice
a second while no step comes. ``json`` prints lines such as

    {"rec":"progress","step":"scan","done":1048576,"total":8388608,"percent":12.5,"left_ms":2170,"elapsed_ms":310}
    {"rec":"progress","step":"read","done":0,"total":18,"records":1966080,"percent":0.0,"elapsed_ms":4071}

A line of a step is printed at most every half second, and always when the step is done. The second line is for a step
that is counted in tasks; the bar shows the number of its records at the end. ``rich`` is loaded only when a bar is
drawn.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import IO, TYPE_CHECKING, Final, Protocol

from engine.errors import located, plural
from engine.events import Listener, RecordCountListener, SilentListener
from jetool.output.shape import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from jetool.output.ticker import Ticker

_COLORS: Final = {"error": "\x1b[31m", "warning": "\x1b[33m", "notice": "\x1b[36m", "detail": "\x1b[2m"}

QUIET: Final = -1
NORMAL: Final = 0
_LONGEST_VALUE: Final = 2_000


class Messages:
    """Prints the messages of a command.

    Arguments:
        level: -1 for ``-q``, 0, or the number of ``-v``.
        color: whether colours may be used.
        before: called before each message, to erase a progress bar on the same terminal.
    """

    def __init__(self, level: int = NORMAL, *, color: bool = False, before: Callable[[], None] = lambda: None) -> None:
        self.level = level
        self._color = color
        self._before = before

    def warning(self, what: str, **details: str | None) -> None:
        """Warn about a problem that does not stop the run.

        Arguments:
            what: one clause, lower case, without a full stop.
            details: any of ``file``, ``lsn``, ``expected``, ``found``, ``consequence``, ``hint``, as for JetoolError.
        """
        self._say("warning", NORMAL, what, details)

    def notice(self, what: str, **details: str | None) -> None:
        """Something worth knowing. Arguments as for ``warning``."""
        self._say("notice", NORMAL, what, details)

    def detail(self, what: str, **details: str | None) -> None:
        """What ``-v`` asks for. Arguments as for ``warning``."""
        self._say("detail", 1, what, details)

    def _say(self, word: str, level: int, what: str, details: Mapping[str, str | None]) -> None:
        if self.level >= level:
            given = {name: value for name, value in details.items() if value is not None}
            # Erase the bar before the message is printed.
            self._before()
            _print(_format(word, {"what": what, **given}, color=self._color))


def print_error(fields: Mapping[str, str | int], *, color: bool, as_json: bool) -> None:
    """Print the error that ends a run.

    Arguments:
        fields: ``JetoolError.fields()``, or the same keys from another error.
        color: whether colours may be used.
        as_json: whether a JSON object follows on a separate line.
    """
    _print(_format("error", fields, color=color))
    if as_json:
        from jetool.output import jsonl

        _print(jsonl.line({"rec": "error", **fields}).decode())


def wants_color(args: Sequence[str]) -> bool:
    """Whether messages may be coloured, from the raw words of the command line, which may not parse."""
    choice = "auto"
    # The last option counts, as in Click.
    for word, after in itertools.pairwise([*args, "auto"]):
        if word == "--color":
            choice = after
        elif word.startswith("--color="):
            choice = word.partition("=")[2]
    return color(choice, is_terminal(sys.stderr))


def is_terminal(stream: IO[str] | None) -> bool:
    """Whether a standard stream is a terminal. Python uses None for a stream that was closed before the start."""
    return stream is not None and stream.isatty()


def width(*, terminal: bool) -> int | None:
    """The width for text: that of the terminal, which COLUMNS overrides; None for no limit."""
    # Do not wrap lines in a pipe, because scripts search for them.
    if not terminal:
        return None
    import shutil

    # For narrower terminals there is no layout; the terminal wraps lines.
    return max(40, shutil.get_terminal_size().columns)


def color(choice: str, terminal: bool) -> bool:
    """Whether to use colours.

    Arguments:
        choice: ``auto``, ``always`` or ``never``.
        terminal: whether the target is a terminal.
    """
    # An explicit option takes precedence over the terminal and NO_COLOR.
    if choice != "auto":
        return choice == "always"
    return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _shortened(value: str) -> str:
    """The value, shortened to a limit, because some values come from peers and may have any length."""
    left = len(value) - _LONGEST_VALUE
    return value if left <= 0 else f"{value[:_LONGEST_VALUE]} [and {plural(left, 'character')} more]"


def _format(word: str, fields: Mapping[str, str | int], *, color: bool) -> str:
    """The lines of a message. Values come from disk and from the command line, so control characters are shown."""
    shown = {name: _shortened(printable(str(value))) for name, value in fields.items()}
    head = f"{_COLORS[word]}{word}:\x1b[0m" if color else f"{word}:"
    text = f"jetool: {head} {located(shown['what'], shown.get('file'), shown.get('lsn'))}"
    if "expected" in shown:
        text += f": expected {shown['expected']}, found {shown.get('found', 'nothing')}"
    elif "found" in shown:
        text += f": {shown['found']}"
    if "consequence" in shown:
        text += f"; {shown['consequence']}"
    return f"{text}\n  next: {shown['hint']}" if "hint" in shown else text


def _print(text: str) -> None:
    columns = width(terminal=is_terminal(sys.stderr))
    if columns is not None:
        from jetool.output.text import fold

        text = "\n".join(fold(line, columns) for line in text.split("\n"))
    with contextlib.suppress(OSError, ValueError, AttributeError):  # the last for a stream that is None
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


_DELAY_S: Final = 1.0
_DRAW_S: Final = 0.1
_REPORT_S: Final = 0.5
_TICK_S: Final = 0.5


class Reporter(Listener, RecordCountListener, Protocol):
    """A listener that may have to erase its output on the terminal."""

    def pause(self) -> None:
        """Erase the bar before a message. The next step may draw the bar again."""

    def make_way(self, result: bytes) -> None:
        """Erase the bar before a result on the same terminal.

        From one second later a step may draw the bar again, unless the result ends within a line.
        """

    def close(self) -> None:
        """Erase the bar. Later steps are ignored. Closing twice is harmless."""


class NoProgress(SilentListener):
    """No progress."""

    __slots__ = ()

    def count(self, name: str, records: int) -> None:
        """Nothing is shown."""

    def pause(self) -> None:
        """Nothing is drawn."""

    def make_way(self, result: bytes) -> None:
        """Nothing is drawn."""

    def close(self) -> None:
        """Nothing is drawn."""


class JsonMessages:
    """Progress for machines."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._began: dict[str, float] = {}
        self._next: dict[str, float] = {}
        self._records: dict[str, int] = {}

    def count(self, name: str, records: int) -> None:
        """Remember the number of records for the next line."""
        self._records[name] = records

    def step(self, name: str, done: int, total: int) -> None:
        """Print a line, unless the previous line was printed recently."""
        now = time.monotonic()
        began = self._began.setdefault(name, now)
        finished = total > 0 and done >= total
        # The last line of a step is always printed, because a program may wait for it.
        if not finished and now < self._next.get(name, 0.0):
            return
        self._next[name] = now + _REPORT_S
        from jetool.output import jsonl

        elapsed_ms = int((now - self._start) * 1000)
        more: dict[str, float] = {"records": self._records[name]} if name in self._records else {}
        if total > 0:
            more["percent"] = round(min(done / total, 1) * 100, 1)
            # Extrapolate the rate since the first report of the step.
            more |= {"left_ms": int((now - began) * 1000 * max(0, total - done) / done)} if done > 0 else {}
        report = {"rec": "progress", "step": name, "done": done, "total": total, **more, "elapsed_ms": elapsed_ms}
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(jsonl.line(report).decode() + "\n")
            sys.stderr.flush()

    def pause(self) -> None:
        """Nothing is drawn."""

    def make_way(self, result: bytes) -> None:
        """Nothing is drawn."""

    def close(self) -> None:
        """Nothing is drawn."""


class Bar:
    """Progress for people.

    Arguments:
        clock: the monotonic clock.
        new_bar: makes a bar on standard error and draws it; None for that of ``rich``.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, new_bar: Callable[[], Progress] | None = None
    ) -> None:
        self._clock = clock
        self._new_bar = new_bar or partial(_new_bar, clock)
        self._next = clock() + _DELAY_S
        self._closed = False
        self._bar: Progress | None = None
        self._ticker: Ticker | None = None
        self._drawing = False
        self._tasks: dict[str, TaskID] = {}
        self._records: dict[str, int] = {}

    def count(self, name: str, records: int) -> None:
        """Remember the number of records for the next drawing of the bar."""
        self._records[name] = records

    def step(self, name: str, done: int, total: int) -> None:
        """Draw the step, at most ten times a second; a new step takes the place of the earlier ones."""
        now = self._clock()
        # Short runs end before the delay and never load ``rich``.
        if self._closed or now < self._next:
            return
        self._next = now + _DRAW_S
        self._drawing = True
        try:
            self._draw(name, done, total)
        finally:
            self._drawing = False
        if self._ticker is None:
            from jetool.output.ticker import Ticker

            self._ticker = Ticker(_TICK_S, self._tick)
        self._ticker.start()

    def _tick(self) -> None:
        """Draw the last step with its new time: a step may take long, and the user must see that the command runs."""
        if self._bar is not None and not self._drawing:
            with contextlib.suppress(OSError, ValueError):
                self._bar.refresh()

    def _draw(self, name: str, done: int, total: int) -> None:
        if self._bar is None:
            self._bar = self._new_bar()
        if name not in self._tasks:
            # Steps that have ended do not say so. Steps that go on side by side report, and are shown, again.
            for other in self._tasks.values():
                self._bar.update(other, visible=False)
            self._tasks[name] = self._bar.add_task(name, percent="", records="")
        records = (
            f"{self._records[name]:,} {'record' if self._records[name] == 1 else 'records'}"
            if name in self._records
            else ""
        )
        percent = f"{min(done / total, 1):4.0%}" if total else ""
        self._bar.update(
            self._tasks[name], completed=done, total=total or None, percent=percent, records=records, visible=True
        )
        self._bar.refresh()

    def pause(self) -> None:
        """Erase the bar; the next step draws a new one."""
        if self._ticker is not None:
            self._ticker.stop()
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
            self._tasks.clear()

    def make_way(self, result: bytes) -> None:
        """Erase the bar, and let later steps draw it only after a delay."""
        self.pause()
        self._next = self._clock() + _DELAY_S if result.endswith(b"\n") else math.inf

    def close(self) -> None:
        """Erase the bar for good."""
        # Set this first, so that a step from another thread does not draw a new bar.
        self._closed = True
        self.pause()


def _new_bar(clock: Callable[[], float]) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        # Moves with every step, also where nothing new is done; ASCII, for any terminal.
        SpinnerColumn("line"),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[percent]}"),
        TextColumn("{task.fields[records]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    # The ticker refreshes it: a thread would be copied by a fork in an unknown state.
    bar = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False, get_time=clock)
    bar.start()
    return bar


def make_reporter(choice: str, *, quiet: bool) -> Reporter:
    """The listener for a value of ``--progress``.

    Arguments:
        choice: ``auto``, ``never`` or ``json``.
        quiet: whether ``-q`` was given: no bar is drawn, but requested JSON lines are printed.
    """
    if choice == "json":
        return JsonMessages()
    if choice == "auto" and not quiet and is_terminal(sys.stderr):
        return Bar()
    return NoProgress()
