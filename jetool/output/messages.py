"""Messages on standard error: what, where, consequence, next command.

    jetool: warning: entry cannot be read in 0000001f.jdb at 0x1f/0x2a3c; 812 bytes were stepped over
      next: jetool verify --full /data/env

``-q`` leaves errors only, ``-v`` adds details. A message that cannot be written (standard error is closed) is lost: it
must not turn the result of the run into another one.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Final

from jetool.output.values import printable

_COLORS: Final = {"error": "\x1b[31m", "warning": "\x1b[33m", "notice": "\x1b[36m", "detail": "\x1b[2m"}

QUIET: Final = -1
NORMAL: Final = 0


class Messages:
    """What a command says beside its result.

    Arguments:
        level: -1 for ``-q``, 0, or the number of ``-v``.
        color: whether colours may be used.
        before: called before each message (a progress bar on the same terminal has to make room).
    """

    def __init__(self, level: int = NORMAL, *, color: bool = False, before: Callable[[], None] = lambda: None) -> None:
        self.level = level
        self._color = color
        self._before = before

    def warning(self, what: str, **details: str | None) -> None:
        """Something is wrong that does not stop the run.

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
            # The bar goes first, or the message would be drawn over it.
            self._before()
            _print(_format(word, {"what": what, **given}, color=self._color))


def print_error(fields: Mapping[str, str | int], *, color: bool, as_json: bool) -> None:
    """Print the error that ends a run.

    Arguments:
        fields: ``JetoolError.fields()``, or the same keys from another error.
        color: whether colours may be used.
        as_json: whether a JSON object follows on a line of its own.
    """
    _print(_format("error", fields, color=color))
    if as_json:
        from jetool.output import jsonl

        _print(jsonl.line({"rec": "error", **fields}).decode())


def wants_color(args: Sequence[str]) -> bool:
    """Whether messages may be coloured, from the raw words of the command line (it may not parse)."""
    choice = "auto"
    # The last one counts, as in Click.
    for word, after in itertools.pairwise([*args, "auto"]):
        if word == "--color":
            choice = after
        elif word.startswith("--color="):
            choice = word.partition("=")[2]
    return color(choice, is_terminal(sys.stderr))


def is_terminal(stream: IO[str] | None) -> bool:
    """Whether a standard stream is a terminal. Python has None for one that was closed before the start."""
    return stream is not None and stream.isatty()


def color(choice: str, terminal: bool) -> bool:
    """Whether to use colours.

    Arguments:
        choice: ``auto``, ``always`` or ``never``.
        terminal: whether the target is one.
    """
    # What was asked for wins over the terminal and over NO_COLOR.
    if choice != "auto":
        return choice == "always"
    return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _format(word: str, fields: Mapping[str, str | int], *, color: bool) -> str:
    """The lines of a message. Values come from disk and from the command line, so control characters are shown."""
    shown = {name: printable(str(value)) for name, value in fields.items()}
    head = f"{_COLORS[word]}{word}:\x1b[0m" if color else f"{word}:"
    where = "".join(f" {link} {shown[name]}" for link, name in (("in", "file"), ("at", "lsn")) if name in shown)
    text = f"jetool: {head} {shown['what']}{where}"
    if "expected" in shown:
        text += f": expected {shown['expected']}, found {shown.get('found', 'nothing')}"
    elif "found" in shown:
        text += f": {shown['found']}"
    if "consequence" in shown:
        text += f"; {shown['consequence']}"
    return f"{text}\n  next: {shown['hint']}" if "hint" in shown else text


def _print(text: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):  # the last for a stream that is None
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
