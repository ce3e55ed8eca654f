"""All known messages, by ``word`` (reason, class or code) and by pieces of text that identify them without a word."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from operator import itemgetter
from typing import Final, NamedTuple

from engine.rescue.messages.bare import BARE
from engine.rescue.messages.derby_asian import ASIAN, ASIAN_OF_SQL
from engine.rescue.messages.derby_english import ENGLISH, OF_DERBY_ALONE, OF_SQL
from engine.rescue.messages.derby_european import EUROPEAN
from engine.rescue.messages.derby_european_sql import EUROPEAN_OF_SQL
from engine.rescue.messages.derby_log import LOG_CODES
from engine.rescue.messages.derby_start import START_CODES
from engine.rescue.messages.derby_store import STORE_CODES
from engine.rescue.messages.derby_txns import TXN_CODES
from engine.rescue.messages.frontend_texts import FRONTEND_TEXTS
from engine.rescue.messages.je_exceptions import DPL_EXCEPTIONS, EXCEPTIONS
from engine.rescue.messages.je_group_texts import GROUP_TEXTS
from engine.rescue.messages.je_handle_texts import HANDLE_TEXTS
from engine.rescue.messages.je_open_texts import OPEN_TEXTS
from engine.rescue.messages.je_reasons import REASONS
from engine.rescue.messages.je_rep_exceptions import REP_EXCEPTIONS
from engine.rescue.messages.je_store_texts import STORE_TEXTS
from engine.rescue.messages.je_stream_texts import STREAM_TEXTS
from engine.rescue.messages.je_syncup_texts import SYNCUP_TEXTS
from engine.rescue.messages.je_texts import TEXTS
from engine.rescue.messages.record import KnownMessage

OF_JE: Final = (
    *REASONS, *EXCEPTIONS, *REP_EXCEPTIONS, *DPL_EXCEPTIONS, *TEXTS, *GROUP_TEXTS, *STREAM_TEXTS, *SYNCUP_TEXTS,
    *STORE_TEXTS, *HANDLE_TEXTS, *OPEN_TEXTS, *FRONTEND_TEXTS,
)  # fmt: skip
OF_DERBY: Final = (*START_CODES, *STORE_CODES, *LOG_CODES, *TXN_CODES)
# Derby's classes with a row; its other exceptions have a message with a code.
DERBY_CLASSES: Final = frozenset(known.word for known in OF_DERBY if known.word.endswith("Exception"))
DERBY_PACKAGE: Final = "org.apache.derby."
BY_WORD: Final = {known.word: known for known in (*OF_JE, *OF_DERBY, *BARE)}
REASON_WORDS: Final = frozenset(known.word for known in REASONS)
WITH_SIGNS: Final = tuple(known for known in OF_JE if known.signs)


class Sign(NamedTuple):
    """Pieces of text that identify a message without its word.

    Attributes:
        pieces: the pieces, in the order in which they occur.
        known: the message.
        place: where they count: ``ANYWHERE``, ``IN_SQL`` or ``IN_DERBY``.
    """

    pieces: tuple[str, ...]
    known: KnownMessage
    place: int


# Where a sign counts: in any text; if an SQLException of Java begins the message; if Derby is named.
ANYWHERE: Final = 0
IN_SQL: Final = 1
IN_DERBY: Final = 2
PHRASES: Final = tuple(
    Sign(tuple(sign.split("\u2026")), BY_WORD[code], place)
    for place, table in (
        (ANYWHERE, ENGLISH),
        (IN_SQL, OF_SQL),
        (IN_DERBY, OF_DERBY_ALONE),
        (ANYWHERE, EUROPEAN),
        (IN_SQL, EUROPEAN_OF_SQL),
        (ANYWHERE, ASIAN),
        (IN_SQL, ASIAN_OF_SQL),
    )
    for code, signs in table.items()
    for sign in signs
)
# Rows that refine a word, by that word: wrappers, and all others.
REPORTS: Final[dict[str, list[KnownMessage]]] = {}
REFINEMENTS: Final[dict[str, list[KnownMessage]]] = {}
for _known in WITH_SIGNS:
    for _refined in _known.refines:
        (REPORTS if _known.wrapper else REFINEMENTS).setdefault(_refined, []).append(_known)

_PART: Final = re.compile(r"\w+")
# Shorter words occur in most lines.
_SHORTEST_WORD: Final = 5

_SQL_EXCEPTION: Final = re.compile(r"\bjava\.sql\.(?:\w*\.)*SQL\w*Exception: ")


def _whole_words(piece: str) -> list[str]:
    """Words of a piece that any text with the piece contains as whole words; its first and last word may be cut off."""
    words = [found[0] for found in _PART.finditer(piece) if found.start() > 0 and found.end() < len(piece)]
    words = words or _PART.findall(piece)
    return [word for word in words if len(word) >= _SHORTEST_WORD] or [max(words, key=len)]


class _Signs:
    """Signs by a word of their longest piece, so that no line is compared with all of them.

    Use the word that occurs in the fewest signs; among several such words, use the longest. Not all languages put
    spaces between words: signs that are not ASCII are found by a character instead, the one in the fewest signs.
    """

    def __init__(self, signs: Iterable[Sign]) -> None:
        self._by_part: dict[str, list[Sign]] = {}
        self._by_character: dict[str, list[tuple[int, Sign]]] = {}
        ascii_signs: list[Sign] = []
        others: list[tuple[set[str], Sign]] = []
        for sign in signs:
            characters = {one for piece in sign.pieces for one in piece if not one.isascii()}
            if characters:
                others.append((characters, sign))
            else:
                ascii_signs.append(sign)
        words = [_whole_words(max(sign.pieces, key=len)) for sign in ascii_signs]
        counts = Counter(word for some in words for word in some)
        for sign, some in zip(ascii_signs, words, strict=True):
            part = min(some, key=lambda word: (counts[word], -len(word)))
            self._by_part.setdefault(part, []).append(sign)
        counts = Counter(one for characters, _ in others for one in characters)
        for number, (characters, sign) in enumerate(others):
            rarest = min(characters, key=lambda one: (counts[one], one))
            self._by_character.setdefault(rarest, []).append((number, sign))

    def near(self, text: str, parts: Iterable[str]) -> list[Sign]:
        """The signs that a text with these words may contain."""
        near = [one for part in parts for one in self._by_part.get(part, ())]
        if text.isascii():
            return near
        found = [one for character in set(text) for one in self._by_character.get(character, ())]
        return near + [sign for _, sign in sorted(found, key=itemgetter(0))]


_ANYWHERE: Final = _Signs(
    (
        *(Sign(known.signs, known, ANYWHERE) for known in WITH_SIGNS if not known.refines),
        *(sign for sign in PHRASES if sign.place == ANYWHERE),
    )
)
_IN_PLACES: Final = _Signs(sign for sign in PHRASES if sign.place != ANYWHERE)


def shown_by(text: str, *, of_derby: bool = False) -> list[KnownMessage]:
    """The messages identified by signs in a text; those of JE and the frontends come first.

    Args:
        text: a message.
        of_derby: the frames after it show that Derby threw it.
    """
    of_derby = of_derby or DERBY_PACKAGE in text
    starts = [found.end() for found in _SQL_EXCEPTION.finditer(text)] if "java.sql." in text else []
    parts = dict.fromkeys(_PART.findall(text))
    near = _ANYWHERE.near(text, parts)
    if of_derby or starts:
        near += _IN_PLACES.near(text, parts)
    spans: list[tuple[int, int, KnownMessage]] = []
    shown = []
    for sign in near:
        span = _span_of(sign, text, of_derby, starts)
        if span is None:
            continue
        if sign.known.signs:
            shown.append(sign.known)
        else:
            spans.append((*span, sign.known))
    # A message that begins with the words of another message must not be mistaken for it.
    return shown + [
        known
        for first, last, known in spans
        if not any(start <= first and last <= end and start - end < first - last for start, end, _ in spans)
    ]


def _span_of(sign: Sign, text: str, of_derby: bool, starts: list[int]) -> tuple[int, int] | None:
    """The position of a sign in a text; None if it is absent, or does not count at its place."""
    if sign.place == ANYWHERE or of_derby:
        return _span(text, sign.pieces, 0)
    if sign.place == IN_SQL:
        return next((_span(text, sign.pieces, at) for at in starts if text.startswith(sign.pieces[0], at)), None)
    return None


def _span(text: str, pieces: tuple[str, ...], at: int) -> tuple[int, int] | None:
    first = -1
    for piece in pieces:
        at = text.find(piece, at)
        if at < 0:
            return None
        first = at if first < 0 else first
        at += len(piece)
    return first, at


def has(text: str, pieces: tuple[str, ...]) -> bool:
    """Whether a text contains some pieces in their order."""
    return _span(text, pieces, 0) is not None
