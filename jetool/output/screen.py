"""The screen of ``jetool watch``: a table that refreshes, and keys.

The screen is drawn by ``rich`` on the terminal's second page, so that the first one is as it was afterwards. Samples
are taken in a thread of their own: a node that does not answer holds up the next sample, and no key.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from engine.errors import plural
from engine.monitor.sample import NodeSample
from jetool.output.node_table import ORDERS, ordered, table_lines
from jetool.output.shape import Style, time_text

_KEY_S: Final = 0.1
_NO_ORDER: Final = "n"
_QUIT: Final = ("q", "Q", "\x03", "\x04")
_PAUSE: Final = "p"
_FOOT_LINES: Final = 2


class NodeScreen:
    """Shows samples until a key ends it.

    Arguments:
        take: takes a sample of every node.
        style: how values look.
        interval_s: seconds from the start of a sample to that of the next.
        count: number of samples after which it ends; 0 for no end.

    Attributes:
        samples: the last samples that were taken.
    """

    def __init__(
        self, take: Callable[[], Sequence[NodeSample]], style: Style, interval_s: float, count: int = 0
    ) -> None:
        self._take = take
        self._style = style
        self._interval_s = interval_s
        self._count = count
        self._order = _NO_ORDER
        self._paused = False
        self._done = 0
        self.samples: Sequence[NodeSample] = ()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Show samples until it ends. Raises what ``take`` raises."""
        console = Console(file=sys.stdout, color_system="auto" if self._style.color else None)
        due = time.monotonic()
        with _keys() as read_key, Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                if self._thread is None and not self._paused and time.monotonic() >= due:
                    due = time.monotonic() + self._interval_s
                    self._start()
                live.update(Text.from_ansi(self._page(console.width, console.height), no_wrap=True), refresh=True)
                if self._press(read_key(_KEY_S)):
                    return
                if self._thread is not None and not self._thread.is_alive():
                    self._thread = None
                    if self._error is not None:
                        raise self._error
                    self._done += 1
                    if self._done == self._count:
                        return

    def _start(self) -> None:
        def work() -> None:
            try:
                self.samples = self._take()
            except BaseException as error:
                # Raised again by the thread that shows the samples.
                self._error = error

        self._thread = threading.Thread(target=work, name="sample", daemon=True)
        self._thread.start()

    def _press(self, key: str) -> bool:
        """Act on a key; returns whether it ends the screen."""
        if key.lower() == _PAUSE:
            self._paused = not self._paused
        elif key in ORDERS or key == _NO_ORDER:
            self._order = key
        return key in _QUIT

    def _page(self, width: int, height: int) -> str:
        style = self._style._replace(width=width)
        samples = ordered(self.samples, self._order)
        when = time_text(max(one.time for one in samples), style.tz) if samples else "waiting for the first sample"
        said = f"every {self._interval_s:g} s" + (", paused" if self._paused else "")
        lines = [f"jetool watch  {when}  {said}"[:width], ""]
        room = max(height - len(lines) - _FOOT_LINES, 1)
        table = list(table_lines(samples, style)) if samples else []
        body = [part for line in table for part in line.split("\n")]
        if len(body) > room:
            body = [*body[: room - 1], f"and {plural(len(body) - room + 1, 'more line')}"]
        lines += body + [""] * (room - len(body))
        words = {**{key: word for key, (word, _) in ORDERS.items()}, _NO_ORDER: "as listed"}
        keys = "  ".join(f"{key} {word}" + ("*" if key == self._order else "") for key, word in words.items())
        return "\n".join([*lines, "", f"sort: {keys}   p pause  q quit"[:width]])


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """A function that waits for a key; empty if none is pressed. Without a terminal for input there are no keys."""
    if sys.stdin is None or not sys.stdin.isatty():
        yield _pause
        return
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)

    def read(seconds: float) -> str:
        if not select.select([number], [], [], seconds)[0]:
            return ""
        data = os.read(number, 1)
        # The end of input: no further key can come.
        return data.decode("latin-1") if data else _QUIT[0]

    try:
        tty.setcbreak(number)
        yield read
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def _pause(seconds: float) -> str:
    time.sleep(seconds)
    return ""
