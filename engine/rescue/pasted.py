"""Divides pasted text and log files of applications into incidents.

An incident is one record of a log, or one exception with its causes. Its texts are ordered from the outermost to the
innermost. It includes the frames of a stack trace, and lines that continue others: indented ones, or the rest of a line
broken by a terminal or a mail program.

Prefixes that containers, journald and mail programs put in front of each line are removed. Lines are read one by one;
an incident keeps a bounded part of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

_MOST_LINE: Final = 1 << 16
_MOST_TEXTS: Final = 64
_MOST_FRAMES: Final = 200
_MOST_CONTINUED: Final = 200
_MOST_CHARACTERS: Final = 1 << 17

_QUOTE: Final = re.compile(r"(?:[>|] ?)+|(?:[\w.-]+(?: \d+)? +\| )+")
# The start of a log record: a time, a level, or the header of klog.
_STAMP: Final = re.compile(
    r"""\W{0,3}(?:
        \d{4}[-/.]?\d\d[-/.]?\d\d[T\s,]   |  \d{1,2}[-/.](?:\d{1,2}|[A-Z][a-z]{2})[-/.]\d{2,4}[\s:,T]
        | \d{6}\s\d\d:\d\d                |  \d\d:\d\d:\d\d
        | (?:[A-Z][a-z]{2}\s)?[A-Z][a-z]{2}\s+\d{1,2}[\s,]  | [EWIF]\d{4,8}\s
        | (?:ERROR|WARN|WARNING|INFO|SEVERE|FATAL|DEBUG|TRACE|CONFIG|FINE)\b[\s:\]](?!\s?[0-9A-Z]{5}:)
    )""",
    re.VERBOSE,
)
_FRAME: Final = re.compile(
    r"(?:^|\s)at (?:[\w.$@-]+/+)*([\w$.<>]+)\([^()]*\)|(?:^|\s)\.\.\. \d+ (?:more|common)|^\s*- locked <"
)
_SPEAKS: Final = re.compile(r"Exception|Error\b|[A-Z]_[A-Z]|\(JE ")
_CAUSE: Final = re.compile(r"(?:^|\s)(?:Caused by|Suppressed|Next exception|Nested exception)\s?:\s", re.IGNORECASE)
_WRAPPED_BY: Final = re.compile(r"(?:^|\s)Wrapped by: ")
_NESTED: Final = re.compile(r"={3,} (?:begin|end) nested exception")
_THROWN: Final = re.compile(r"(?:Exception in thread |(?:java|javax|com|org)\.[\w.$]+(?:Exception|Error|Throwable)\b)")
# A code of Derby at the start of a line, as printed by ij and SQLException's chain, in any language.
_CODE: Final = re.compile(r"[^\W\d_]{2,7} [0-9A-Z]{5} ?[:\uff1a]")
# Widths of terminals, at which a line is broken within a word.
_WIDTHS: Final = frozenset((72, 79, 80, 100, 120, 132, 160))
_SHORTEST_BROKEN: Final = 60
JAVA_FRAMES: Final = ("java.", "javax.", "jdk.", "sun.")
# A line that begins with one of these ends a value of several lines; it does not begin a message.
_CLOSING: Final = frozenset("\"'/>)]},;")


class Text:
    """One message of an incident: a line with the lines that continue it.

    Attributes:
        number: number of its first line, from 1.
        lines: the lines.
        thrown_by: the uppermost following frame outside of Java itself; empty if there is no such frame.
    """

    def __init__(self, number: int, line: str) -> None:
        self.number = number
        self.lines = [line]
        self.thrown_by = ""
        self._room = _MOST_CHARACTERS

    def add(self, line: str) -> None:
        """Continue the text by a line."""
        if len(self.lines) < _MOST_CONTINUED and len(line) < self._room:
            self.lines.append(line)
            self._room -= len(line)

    def joined(self) -> str:
        """The text in one line, as before a terminal or a mail program broke it."""
        return self.spellings()[0]

    def spellings(self) -> tuple[str, ...]:
        """The text with its lines joined with and without spaces, the likelier first, since words may be broken."""
        if len(self.lines) == 1:
            return (self.lines[0],)
        both = (" ".join(line.strip() for line in self.lines), "".join(self.lines))
        return both[::-1] if self._hard() else both

    def _hard(self) -> bool:
        full = {len(line) for line in self.lines[:-1]}
        return len(full) == 1 and (len(self.lines) > 2 or bool(full & _WIDTHS)) and min(full) >= _SHORTEST_BROKEN


class Incident:
    """One record of a log, or one exception with its causes.

    Attributes:
        texts: the messages, outermost first.
        latest: the message that was read last.
        frames: methods of the stack trace, uppermost first, as ``package.Class.method``.
        first_line, last_line: numbers of lines, from 1.
        stamped: whether it began as a record of a log.
    """

    def __init__(self, number: int) -> None:
        self.texts: list[Text] = []
        self.latest: Text | None = None
        self.frames: list[str] = []
        self.first_line = self.last_line = number
        self.stamped = False

    def add(self, text: Text, *, outermost: bool = False) -> None:
        """Add a message as the innermost or the outermost one."""
        self.texts.insert(0 if outermost else len(self.texts), text)
        self.latest = text

    def add_frames(self, line: str) -> None:
        """Collect the frames in a line."""
        if self.latest is not None and not self.latest.thrown_by:
            own = (found for found in _FRAME.findall(line) if found and not found.startswith(JAVA_FRAMES))
            self.latest.thrown_by = next(own, "")
        if len(self.frames) < _MOST_FRAMES:
            self.frames.extend(found for found in _FRAME.findall(line) if found)


class _Reader:
    """Groups lines into incidents."""

    def __init__(self) -> None:
        self.open: Incident | None = None
        # Whether the last line was a message, which another line may continue; otherwise it was a frame.
        self._in_text = False

    def read(self, number: int, line: str) -> Incident | None:
        """Take one line; return the incident that ended before it, or None."""
        ended = None
        if not line.strip():
            ended, self.open = self.open, None
            return ended
        current = self.open
        frame = _FRAME.search(line) if "at " in line or "... " in line or "- locked" in line else None
        if frame is not None and not _SPEAKS.search(line, 0, frame.start()):
            if current is None:
                current = self.open = Incident(number)
            current.add_frames(line)
            self._in_text = False
        elif "===" in line and _NESTED.search(line):
            self._in_text = False
        elif current is not None and self._continues(current, number, line):
            pass
        else:
            ended, current = current, Incident(number)
            self.open = current
            current.stamped = _STAMP.match(line) is not None
            current.add(Text(number, line))
            # If a log puts each record on one line, the stack frames are in that line.
            if frame is not None:
                current.add_frames(line)
            self._in_text = True
        if current is not None:
            current.last_line = number
        return ended

    def _continues(self, current: Incident, number: int, line: str) -> bool:
        """Add a line to the open incident, if it belongs there."""
        # Most lines of a log begin a record of their own.
        stamped = _STAMP.match(line) is not None
        marked = "ed by: " in line or "xception" in line or "uppressed" in line
        if stamped and not marked:
            return False
        if marked and _WRAPPED_BY.search(line):
            current.add(Text(number, line), outermost=True)
        elif (marked and _CAUSE.search(line)) or (not stamped and self._is_next(current, line)):
            if len(current.texts) < _MOST_TEXTS:
                current.add(Text(number, line))
        elif not stamped and self._in_text and current.texts and self._is_rest(current.texts[-1], line):
            current.texts[-1].add(line)
            return True
        else:
            return False
        self._in_text = True
        return True

    def _is_next(self, current: Incident, line: str) -> bool:
        """Whether a line is another exception of the incident: it follows the reporting record, or Derby chains it."""
        if not current.texts:
            return False
        if current.stamped and len(current.texts) == 1 and not current.frames:
            return _THROWN.match(line) is not None or _CODE.match(line) is not None
        codes = _CODE.match(line) is not None
        return codes and (not self._in_text or _CODE.match(current.texts[-1].lines[0]) is not None)

    def _is_rest(self, text: Text, line: str) -> bool:
        """Whether a line continues a text: indented, or broken off."""
        if _THROWN.match(line) or _CODE.match(line):
            return False
        if line.startswith("(JE ") and any("(JE " in one for one in text.lines):
            return False
        return line[:1].isspace() or line[:1] in _CLOSING or len(text.lines[-1]) >= _SHORTEST_BROKEN


def incidents(lines: Iterable[str]) -> Iterator[Incident]:
    """The incidents in some lines, in their order."""
    reader = _Reader()
    for number, whole in enumerate(lines, 1):
        line = whole[:_MOST_LINE].rstrip("\r\n")
        prefix = _QUOTE.match(line) if "|" in line or line[:1] == ">" else None
        if prefix is not None:
            line = line[prefix.end() :]
        # JSON logs hold a stack trace in one line.
        for part in line.replace("\\t", "\t").split("\\n") if "\\n" in line else (line,):
            ended = reader.read(number, part)
            if ended is not None:
                yield ended
    if reader.open is not None:
        yield reader.open
