"""Reading pasted exceptions and log files of applications for messages that are known (``messages``).

Lines are read one by one, so a log file of any size costs the memory of what it says. A line is looked at when it has a
word of the table where such a word stands in a message: a reason before its description, an exception that is JE's or
names no package, a code of Derby after ``ERROR``. Where a line has several, they are one message: the reason tells more
than the exception's class. Frames of a stack trace (``at com.sleepycat...``) are passed over.

From each message come the LSNs, VLSNs, transaction ids and releases that its lines name. An exception of JE or Derby
that no row knows is *unknown*, and said to be so: nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from engine.errors import JetoolError, plural
from engine.format.lsn import file_of, format_lsn, make_lsn
from engine.rescue.messages import BY_WORD, KnownMessage
from engine.storage.base import Storage

UNKNOWN: Final = "unknown"
# What is kept of one message, however often it comes.
_MOST_PLACES: Final = 20
_MOST_MESSAGES: Final = 1000
_MOST_LINE: Final = 1 << 16
_SAMPLE: Final = 300

# A reason stands before its description; an exception is JE's unless its package says otherwise.
_REASON: Final = re.compile(r"\b([A-Z]+(?:_[A-Z]+)+|WEDGED): ")
_EXCEPTION: Final = re.compile(r"(?<![\w.$])((?:[a-z_]\w*\.)*)([A-Z]\w*Exception)\b")
_JE: Final = "com.sleepycat."
_FOREIGN: Final = re.compile(r"\b(?:com\.sleepycat|org\.apache\.derby)[\w.$]*\.([A-Z]\w*(?:Exception|Error))\b")
# In front of the code ERROR or SQLState: a number of five digits alone may be anything.
_DERBY_CODE: Final = re.compile(r"\b(?:ERROR |SQLSTATE: ?|SQLState[:=] ?)([0-9A-Z]{5})\b|\b(XS[A-Z]{2}\w|XBM0\w)\b")
# What every line has that is looked at: one search for most lines of a log file, which say nothing.
_HINT: Final = re.compile(r"Exception|Error|[A-Z]_[A-Z]|WEDGED: |ERROR |SQLS|XBM0|XS[A-Z]")
_FRAME: Final = re.compile(r"\s*at [\w.$<>/@]+\(|\s*\.\.\. \d+ more")
_LSN: Final = re.compile(r"\b0x([0-9a-f]{1,8})/0x([0-9a-f]{1,8})\b", re.IGNORECASE)
_VLSN: Final = re.compile(r"VLSN[:= ]{1,3}(\d{1,18})\b", re.IGNORECASE)
_TXN: Final = re.compile(r"\b(?:txn|transaction|Txn)[ :=#]+(-?\d{1,18})\b")
_RELEASE: Final = re.compile(r"\(JE (\d+\.\d+(?:\.\d+)*)\)|\bDerby[ -](\d+\.\d+(?:\.\d+)*)")


class ExplainedMessage:
    """One message, and what its occurrences name.

    Attributes:
        word: by which it was recognised; of an unknown one its class or code.
        known: the row of the table, None for an unknown one.
        count: how often it was met.
        first_line, last_line: numbers of lines, from 1.
        sample: the first of these lines.
        lsns, vlsns, txns, releases: what the lines name, each once and in order.
    """

    def __init__(self, word: str, known: KnownMessage | None, line: int, sample: str) -> None:
        self.word = word
        self.known = known
        self.count = 0
        self.first_line = self.last_line = line
        self.sample = sample.strip()[:_SAMPLE]
        self.lsns: dict[int, None] = {}
        self.vlsns: dict[int, None] = {}
        self.txns: dict[int, None] = {}
        self.releases: dict[str, None] = {}

    def name(self, text: str) -> None:
        """Note what a line names."""
        if len(self.lsns) < _MOST_PLACES:
            places = (make_lsn(int(file, 16), int(offset, 16)) for file, offset in _LSN.findall(text))
            # NULL and transient LSNs lead nowhere.
            self.lsns.update(dict.fromkeys(lsn for lsn in places if file_of(lsn) < 1 << 31))
        if len(self.vlsns) < _MOST_PLACES:
            self.vlsns.update(dict.fromkeys(int(found) for found in _VLSN.findall(text)))
        if len(self.txns) < _MOST_PLACES:
            self.txns.update(dict.fromkeys(int(found) for found in _TXN.findall(text)))
        for je, derby in _RELEASE.findall(text):
            if len(self.releases) < _MOST_PLACES:
                self.releases[f"JE {je}" if je else f"Derby {derby}"] = None


class PlaceLook(NamedTuple):
    """What is at a place that a message names; ``intact``: a good entry begins there."""

    lsn: int
    intact: bool
    found: str


def explain(lines: Iterable[str]) -> list[ExplainedMessage]:
    """The messages in some lines, in the order in which they first come."""
    found: dict[str, ExplainedMessage] = {}
    current: ExplainedMessage | None = None
    for number, whole in enumerate(lines, 1):
        line = whole[:_MOST_LINE]
        hinted = _HINT.search(line) is not None
        if not hinted and current is None:
            continue
        if _FRAME.match(line):
            continue
        word = _recognised(line) if hinted else None
        if word is None:
            # The lines after a message belong to it, as long as they are part of the same exception.
            if current is not None and line[:1].isspace():
                current.name(line)
            else:
                current = None
            continue
        current = found.get(word)
        if current is None:
            if len(found) >= _MOST_MESSAGES:
                continue
            current = found[word] = ExplainedMessage(word, BY_WORD.get(word), number, line)
        current.count += 1
        current.last_line = number
        current.name(line)
    return list(found.values())


def _recognised(line: str) -> str | None:
    """The known word of a line, or the class or code of an unknown exception."""
    # Of an exception with a reason the reason counts.
    for found in _REASON.finditer(line):
        if found[1] in BY_WORD:
            return found[1]
    for found in _EXCEPTION.finditer(line):
        if found[2] in BY_WORD and (not found[1] or found[1].startswith(_JE)):
            return found[2]
    code = _DERBY_CODE.search(line)
    if code is not None:
        return code[1] or code[2]
    unknown = _FOREIGN.search(line)
    return None if unknown is None else unknown[1]


def look_at_places(storage: Storage, messages: Iterable[ExplainedMessage]) -> list[PlaceLook]:
    """What is at the places that messages name, in an environment of JE.

    Raises:
        NotFoundError: there is no environment.
    """
    # Most texts are explained without an environment, and soon.
    from engine.log.files import list_log_files
    from engine.log.reader import LogReader

    files = list_log_files(storage)
    reader = LogReader(storage, files)
    looks = []
    for lsn in dict.fromkeys(lsn for one in messages for lsn in one.lsns):
        number = file_of(lsn)
        if files.find(number) is None:
            looks.append(PlaceLook(lsn, False, f"{number:08x}.jdb is not there"))
            continue
        try:
            entry = reader.entry_at(lsn)
        except JetoolError as error:
            looks.append(PlaceLook(lsn, False, str(error)))
            continue
        if entry is None:
            looks.append(PlaceLook(lsn, False, f"no good entry begins at {format_lsn(lsn)}"))
        else:
            looks.append(PlaceLook(lsn, True, f"{entry.type_name}, {plural(entry.total_bytes, 'byte')}, intact"))
    return looks
