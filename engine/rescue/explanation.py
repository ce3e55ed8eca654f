"""Explains messages of JE, Derby and the frontends of Doris and StarRocks in pasted text and in log files.

Each incident (``engine.rescue.pasted``) becomes one message. Its texts are examined from the outermost to the
innermost; the first that is not just a wrapper decides. Within one text of JE the last reason is the outermost, since
JE writes the wrapped text before its own reason. A text that refines the decision, such as "No space left on device",
is searched in all texts. The state of the environment is the worst that any text implies.

An exception of JE or Derby without a row in the table is reported as *unknown*; nothing is guessed. A message
recognised only by its text counts only if the input names JE, Derby or a frontend, or is short enough to be pasted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from engine.errors import JetoolError, plural
from engine.format.lsn import file_of, format_lsn, make_lsn
from engine.log.files import log_file_name
from engine.rescue.messages.bare import FRAMES, ILLEGAL_STATE, JAVA_IN_DERBY, JAVA_IN_JE, TRACE
from engine.rescue.messages.record import INVALID, NOT_OPEN, KnownMessage
from engine.rescue.messages.table import (
    BY_WORD,
    DERBY_CLASSES,
    DERBY_PACKAGE,
    REASON_WORDS,
    REFINEMENTS,
    REPORTS,
    has,
    shown_by,
)
from engine.rescue.pasted import JAVA_FRAMES, Incident, Text, incidents
from engine.storage.base import Storage

UNKNOWN: Final = "unknown"
# Most values kept of each message, most messages, and the length of a sample.
_MOST_PLACES: Final = 20
_MOST_MESSAGES: Final = 1000
_SAMPLE: Final = 300
# A longer text is a log file, in which unnamed messages may come from any program.
_PASTED_LINES: Final = 50

# A reason precedes its description; an exception is JE's unless its package shows otherwise.
_REASON: Final = re.compile(r"\b([A-Z]+(?:_[A-Z]+)+|WEDGED): ")
_EXCEPTION: Final = re.compile(r"(?<![\w.$])((?:[A-Za-z_][\w$]*\.)*)([A-Z]\w*Exception)\b")
_JE: Final = "com.sleepycat."
_OPENING: Final = (
    "com.sleepycat.je.recovery.RecoveryManager.recover",
    "com.sleepycat.je.dbi.EnvironmentImpl.finishInit",
)
_FOREIGN: Final = re.compile(r"\b(?:com\.sleepycat|org\.apache\.derby)[\w.$]*\.([A-Z]\w*(?:Exception|Error))\b")
# JE's own text that follows the class of a Java exception without frames.
_CLOSED: Final = re.compile(
    r"\bjava\.lang\.IllegalStateException: (?:Environment is closed\.|Database is closed\. State=\w+)\s*$"
)
_JAVA: Final = re.compile(r"\bjava[\w.]*\.[A-Z]\w*(?:Exception|Error)\b")
# A code of digits counts only after ERROR (in any language) or SQLState; codes that begin with X are Derby's own.
_DERBY_CODE: Final = re.compile(
    r"\b(?:ERROR|FEHLER|ERREUR|ERRORE|ERRO|HIBA|CHYBA|B\u0141\u0104D|\u041e\u0428\u0418\u0411\u041a\u0410|\u30a8\u30e9\u30fc|\uc624\ub958"
    r"|\u9519\u8bef|\u932f\u8aa4|SQL ?STATE|SQL ?State|sqlstate)(?:[:=\s\uff1a\[('\"]{1,3})([0-9A-Z]{5})\b"
    r"|\b(X(?:S[A-Z]{2}|BM\d|CY\d|RE\d|J\d\d|CW\d)[0-9A-Z])\b"
)
# A code that no other database uses.
_OWN_CODE: Final = re.compile(r"X[0-9A-Z]{3}\d|\d\d[X-Z]")
# A pattern that every relevant incident matches, so that most lines of a log file need a single search.
_HINT: Final = re.compile(
    r"Exception|Error|[A-Z]_[A-Z]|WEDGED: |[A-Z]{4} [0-9A-Z]{5}|SQL ?S|X[A-Z]|[^\x00-\x7f] [0-9A-Z]{5}"
)
_CONTEXT: Final = re.compile(
    r"sleepycat|\(JE \d|derby|SQL ?STATE|SQLException|SQLNonTransient|Container\(|doris|starrocks|palo|bdb|EditLog|"
    r"GlobalStateMgr|\bFE type",
    re.IGNORECASE,
)
_INVALID: Final = re.compile(r"Environment is invalid and must be closed|Environment invalid because of previous")

# A number with the separators of any locale: 129,934,919 and 129.934.919, apostrophes, hard and thin spaces.
_NUMBER: Final = (
    r"(?:\d{1,3}(?:[,.'\u2019\u066c\u00a0\u2009\u202f]\d{2,3})*[,.'\u2019\u066c\u00a0\u2009\u202f]\d{3}(?!\d)"
    r"|\d{1,3}(?: \d{3}){2,5}(?!\d)|\d{1,19}(?!\d))"
)
_LSN: Final = re.compile(r"\b0x([0-9a-f]{1,8})/0x([0-9a-f]{1,8})\b", re.IGNORECASE)
_VLSN: Final = re.compile(
    rf"(?:VLSNs?(?:\s(?:of|is|was))?[:=#({{\[\s]{{1,3}}|\bwant to read |\breader at )({_NUMBER})", re.IGNORECASE
)
_TXN: Final = re.compile(
    rf"\b(?:txn|transaction)(?:[\s_]?id)?[\s:=#<({{\[\"']{{1,3}}(?:id=)?([-\u2212]?{_NUMBER})"
    rf"|(?<![\w.])([-\u2212]?\d{{1,18}})_[^\s_]+_\w*(?:Txn|Locker)\b",
    re.IGNORECASE,
)
_RELEASE: Final = re.compile(r"\(JE (\d+\.\d+(?:\.\d+)*)\)|\bDerby[ -](\d+\.\d+(?:\.\d+)*)")
_SEPARATOR: Final = re.compile(r"[^\d-]")
_LARGEST: Final = 1 << 63


class ExplainedMessage:
    """One message, and the values named in its occurrences.

    Attributes:
        word: the word by which the message was recognised; for an unknown message its class or code.
        known: the row of the table; None for an unknown message.
        environment: the state of the environment afterwards; None if unknown.
        others: words of other messages in the same exceptions that did not decide.
        count: number of occurrences.
        first_line, last_line: numbers of lines, from 1.
        sample: the first text with the message.
        weak: the message was recognised by its text only, and no program is named near it.
        lsns, vlsns, txns, releases: values named in the lines, each once and in order.
    """

    def __init__(self, word: str, known: KnownMessage | None, line: int, sample: str) -> None:
        self.word = word
        self.known = known
        self.environment: str | None = None
        self.others: dict[str, None] = {}
        self.count = 0
        self.first_line = self.last_line = line
        self.sample = " ".join(sample.split())[:_SAMPLE]
        self.weak = True
        self.lsns: dict[int, None] = {}
        self.vlsns: dict[int, None] = {}
        self.txns: dict[int, None] = {}
        self.releases: dict[str, None] = {}

    def name(self, text: str) -> None:
        """Collect the values that a text names."""
        if len(self.lsns) < _MOST_PLACES:
            places = (make_lsn(int(file, 16), int(offset, 16)) for file, offset in _LSN.findall(text))
            # NULL and transient LSNs are not places in the log.
            self.lsns.update(dict.fromkeys(lsn for lsn in places if file_of(lsn) < 1 << 31))
        if len(self.vlsns) < _MOST_PLACES:
            self.vlsns.update(dict.fromkeys(_numbers(_VLSN.findall(text))))
        if len(self.txns) < _MOST_PLACES:
            self.txns.update(dict.fromkeys(_numbers(a or b for a, b in _TXN.findall(text))))
        for je, derby in _RELEASE.findall(text):
            if len(self.releases) < _MOST_PLACES:
                self.releases[f"JE {je}" if je else f"Derby {derby}"] = None


def _numbers(found: Iterable[str]) -> Iterator[int]:
    for spelled in found:
        value = int(_SEPARATOR.sub("", spelled.replace("\u2212", "-")))
        if -_LARGEST <= value < _LARGEST:
            yield value


class PlaceLook(NamedTuple):
    """The entry at a place that a message names; ``intact``: a good entry begins there."""

    lsn: int
    intact: bool
    found: str


class _Verdict(NamedTuple):
    """The message of one incident; ``known`` is None for an unknown exception; ``strong``: recognised by a word."""

    word: str
    known: KnownMessage | None
    environment: str | None
    others: tuple[str, ...]
    strong: bool


def explain(lines: Iterable[str]) -> list[ExplainedMessage]:
    """The messages in some lines, in the order of their first occurrence."""
    found: dict[str, ExplainedMessage] = {}
    context = False
    last = 0
    for incident in incidents(lines):
        last = incident.last_line
        verdict = _verdict(incident)
        if verdict is None:
            continue
        named = verdict.strong or any(_CONTEXT.search(line) for text in incident.texts for line in text.lines)
        named = named or any(_CONTEXT.search(frame) for frame in incident.frames)
        context = context or named
        one = found.get(verdict.word)
        if one is None:
            if len(found) >= _MOST_MESSAGES:
                continue
            sample = incident.texts[0].joined() if incident.texts else f"at {incident.frames[0]}"
            one = found[verdict.word] = ExplainedMessage(verdict.word, verdict.known, incident.first_line, sample)
        _add(one, verdict, incident)
        one.weak = one.weak and not named
    # A bare trace counts only if no message was found: a page dump may stand between an exception and its frames.
    if len(found) > 1:
        found.pop(TRACE.word, None)
    if context or last <= _PASTED_LINES:
        return list(found.values())
    return [one for one in found.values() if not one.weak]


def explain_code(code: str) -> list[ExplainedMessage]:
    """The message of a code or exception that stands alone; empty if the table does not have it."""
    known = BY_WORD.get(code)
    if known is None or " " in code:
        return []
    one = ExplainedMessage(code, known, 1, code)
    one.count, one.weak = 1, False
    return [one]


def _add(one: ExplainedMessage, verdict: _Verdict, incident: Incident) -> None:
    one.count += 1
    one.last_line = incident.texts[-1].number if incident.texts else incident.last_line
    one.environment = _worse(one.environment, verdict.environment)
    if len(one.others) < _MOST_PLACES:
        one.others.update(dict.fromkeys(verdict.others))
    for text in incident.texts:
        one.name(text.joined())


def _worse(first: str | None, second: str | None) -> str | None:
    """The state of an environment after two messages: an invalid one does not become valid again."""
    if INVALID in (first, second):
        return INVALID
    return first or second


def _verdict(incident: Incident) -> _Verdict | None:
    """The message of an incident; None if it has no message of JE, Derby or a frontend."""
    if not any(_may_show(one) for one in incident.texts):
        return _by_frames(incident)
    spelled = [text.spellings() for text in incident.texts]
    met: dict[str, bool] = {}
    for text, spellings in zip(incident.texts, spelled, strict=True):
        for spelling in spellings:
            words = _words(spelling, of_derby=text.thrown_by.startswith(DERBY_PACKAGE))
            met.update((word, met.get(word, False) or strong) for word, strong in words)
    if not met:
        return _by_frames(incident) or _unknown(incident)
    rows = [BY_WORD[word] for word in met]
    chosen = next((row for row in rows if not row.wrapper), rows[0])
    whole = "\n".join(spelling for spellings in spelled for spelling in spellings)
    refined = _refined(chosen, rows if chosen.wrapper else [chosen], whole, incident)
    others = tuple(word for word in met if word != refined.word)
    return _Verdict(refined.word, refined, _environment(refined, rows, whole, incident), others, any(met.values()))


def _may_show(text: Text) -> bool:
    """Whether a text needs closer examination; most lines of a log file do not."""
    if len(text.lines) > 1 or _HINT.search(text.lines[0]):
        return True
    return bool(shown_by(text.lines[0], of_derby=text.thrown_by.startswith(DERBY_PACKAGE)))


def _environment(refined: KnownMessage, rows: Iterable[KnownMessage], whole: str, incident: Incident) -> str | None:
    """The state of the environment, from the deciding message, the other messages, and the text."""
    rows = (refined, *rows)
    # The message that opening failed is more useful than the exception that caused it.
    if refined.environment == NOT_OPEN or any(row.wrapper and row.environment == NOT_OPEN for row in rows):
        return NOT_OPEN
    if any(frame.startswith(_OPENING) for frame in incident.frames):
        return NOT_OPEN
    if _INVALID.search(whole):
        return INVALID
    environment = None
    for row in rows:
        environment = _worse(environment, row.environment)
    return environment


def _words(text: str, *, of_derby: bool = False) -> Iterator[tuple[str, bool]]:
    """The known words of one text, outermost first, and whether each occurs as a whole word."""
    # A known text of JE that follows a reason is more precise than the reason, so it comes first.
    shown = shown_by(text, of_derby=of_derby)
    yield from ((known.word, False) for known in shown if known.signs)
    # JE writes the wrapped text before its own reason, so the last reason is the outermost.
    reasons = [found[1] for found in _REASON.finditer(text) if found[1] in REASON_WORDS]
    yield from ((_instead(word, text), True) for word in reversed(reasons))
    for found in _EXCEPTION.finditer(text):
        known_class = BY_WORD.get(found[2])
        if known_class is None or (found[2] in DERBY_CLASSES) != found[1].startswith(DERBY_PACKAGE):
            continue
        if found[1].startswith((_JE, DERBY_PACKAGE)) or (not found[1] and not known_class.wrapper):
            yield found[2], bool(found[1])
    codes = [code for code in (found[1] or found[2] for found in _DERBY_CODE.finditer(text)) if code in BY_WORD]
    # Other databases use the codes of digits, too.
    yield from ((code, not code.isdigit()) for code in codes)
    if not codes:
        yield from ((known.word, False) for known in shown if not known.signs)


def _instead(word: str, text: str) -> str:
    """The reason, or the actual exception behind it: recovery reports any exception as LOG_INTEGRITY."""
    return next((row.word for row in REPORTS.get(word, ()) if has(text, row.signs)), word)


def _refined(chosen: KnownMessage, rows: list[KnownMessage], whole: str, incident: Incident) -> KnownMessage:
    """A more precise row for the chosen row, if one matches; otherwise the chosen one."""
    for row in rows:
        for known in REFINEMENTS.get(row.word, ()):
            if has(whole, known.signs):
                return known
    # A wrapper around an exception of Java: the frames may be more precise.
    by_frame = _row_of_frame(incident) if chosen.wrapper else None
    return by_frame or chosen


def _row_of_frame(incident: Incident) -> KnownMessage | None:
    """The row for the uppermost frame outside of Java itself, if the table has one."""
    for frame in incident.frames:
        if frame.startswith(JAVA_FRAMES):
            continue
        return next((BY_WORD[word] for start, word in FRAMES if frame.startswith(start)), None)
    return None


def _by_frames(incident: Incident) -> _Verdict | None:
    """The message of an incident without a known word, found by the frames of JE or Derby at its top."""
    own = [frame for frame in incident.frames if not frame.startswith(JAVA_FRAMES)]
    if not own and any(_CLOSED.search(text.joined()) for text in incident.texts):
        row = _illegal_state(" ".join(text.joined() for text in incident.texts))
        return _Verdict(row.word, row, row.environment, (), False)
    if not own or not own[0].startswith((_JE, DERBY_PACKAGE)):
        return None
    thrown = " ".join(text.joined() for text in incident.texts)
    if incident.texts and not _JAVA.search(thrown):
        if _FOREIGN.search(thrown):
            return None
        return _known(TRACE) if not incident.stamped else None
    row_of_frame = _row_of_frame(incident)
    if row_of_frame is not None:
        return _known(row_of_frame)
    if "IllegalStateException" in thrown:
        return _known(_illegal_state(thrown))
    return _known(TRACE if not incident.texts else JAVA_IN_JE if own[0].startswith(_JE) else JAVA_IN_DERBY)


def _illegal_state(text: str) -> KnownMessage:
    """The row for an IllegalStateException of JE with some text."""
    texts = REFINEMENTS.get(ILLEGAL_STATE.word, ())
    return next((known for known in texts if has(text, known.signs)), ILLEGAL_STATE)


def _known(row: KnownMessage) -> _Verdict:
    return _Verdict(row.word, row, row.environment, (), True)


def _unknown(incident: Incident) -> _Verdict | None:
    """The class or code of an exception of JE or Derby that is not in the table."""
    named = any("derby" in line.lower() for text in incident.texts for line in text.lines)
    named = named or any(frame.startswith(DERBY_PACKAGE) for frame in incident.frames)
    for text in incident.texts:
        joined = text.joined()
        code = _DERBY_CODE.search(joined)
        word = code[1] if code is not None else None
        if word is not None and not _OWN_CODE.match(word) and not named:
            word = None
        if word is None:
            foreign = _FOREIGN.search(joined)
            word = None if foreign is None else foreign[1]
        if word is not None:
            return _Verdict(word, None, None, (), True)
    return None


def look_at_places(storage: Storage, messages: Iterable[ExplainedMessage]) -> list[PlaceLook]:
    """The entries at the places that messages name, in an environment of JE.

    Raises:
        NotFoundError: there is no environment.
    """
    # Imported here, since most texts are explained without an environment.
    from engine.log.files import list_log_files
    from engine.log.scan import scan_log

    files = list_log_files(storage)
    reader = scan_log(storage, files, marker=True)
    looks = []
    for lsn in dict.fromkeys(lsn for one in messages for lsn in one.lsns):
        number = file_of(lsn)
        if files.find(number) is None:
            looks.append(PlaceLook(lsn, False, f"{log_file_name(number)} is not there"))
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
