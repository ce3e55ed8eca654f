"""All known messages, by their words and by the pieces of text that show them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from engine.rescue.messages.bare import BARE
from engine.rescue.messages.derby_asian import ASIAN, ASIAN_OF_SQL
from engine.rescue.messages.derby_english import ENGLISH, OF_DERBY_ALONE, OF_SQL
from engine.rescue.messages.derby_european import EUROPEAN, EUROPEAN_OF_SQL
from engine.rescue.messages.derby_log import LOG_CODES
from engine.rescue.messages.derby_start import START_CODES
from engine.rescue.messages.derby_store import STORE_CODES
from engine.rescue.messages.frontend_texts import FRONTEND_TEXTS
from engine.rescue.messages.je_exceptions import EXCEPTIONS
from engine.rescue.messages.je_open_texts import OPEN_TEXTS
from engine.rescue.messages.je_reasons import REASONS
from engine.rescue.messages.je_store_texts import STORE_TEXTS
from engine.rescue.messages.je_stream_texts import STREAM_TEXTS
from engine.rescue.messages.je_texts import TEXTS
from engine.rescue.messages.record import KnownMessage

OF_JE: Final = (*REASONS, *EXCEPTIONS, *TEXTS, *STREAM_TEXTS, *STORE_TEXTS, *OPEN_TEXTS, *FRONTEND_TEXTS)
OF_DERBY: Final = (*START_CODES, *STORE_CODES, *LOG_CODES)
BY_WORD: Final = {known.word: known for known in (*OF_JE, *OF_DERBY, *BARE)}
REASON_WORDS: Final = frozenset(known.word for known in REASONS)
WITH_SIGNS: Final = tuple(known for known in OF_JE if known.signs)


class Sign(NamedTuple):
    """Pieces of text that show a message without its word.

    Attributes:
        pieces: they stand in this order.
        known: the message.
        place: where they count: one of ``ANYWHERE``, ``IN_SQL`` and ``IN_DERBY``.
    """

    pieces: tuple[str, ...]
    known: KnownMessage
    place: int


# Where a sign counts: in any text; where an SQLException of Java begins its message; where Derby is named.
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
# Rows that make a word more precise, by that word: reports of other messages, and all others.
REPORTS: Final[dict[str, list[KnownMessage]]] = {}
REFINEMENTS: Final[dict[str, list[KnownMessage]]] = {}
for _known in WITH_SIGNS:
    for _refined in _known.refines:
        (REPORTS if _known.wrapper else REFINEMENTS).setdefault(_refined, []).append(_known)

_PART: Final = re.compile(r"\w+")

# Signs by the longest word of their longest piece: no line is compared with all of them.
_BY_PART: Final[dict[str, list[Sign]]] = {}
_OTHERS: Final[list[Sign]] = []
_SQL_EXCEPTION: Final = re.compile(r"\bjava\.sql\.(?:\w*\.)*SQL\w*Exception: ")
_DERBY_CLASS: Final = "org.apache.derby."


def _index() -> None:
    plain = [Sign(known.signs, known, ANYWHERE) for known in WITH_SIGNS if not known.refines]
    for sign in (*plain, *PHRASES):
        if "".join(sign.pieces).isascii():
            part = max(_PART.findall(max(sign.pieces, key=len)), key=len)
            _BY_PART.setdefault(part, []).append(sign)
        else:
            _OTHERS.append(sign)


_index()


def shown_by(text: str, *, of_derby: bool = False) -> list[KnownMessage]:
    """The messages that a text shows without their words; those of JE and the frontends come first.

    Args:
        text: a message.
        of_derby: Derby threw it, by the frames that follow it.
    """
    near = [one for part in dict.fromkeys(_PART.findall(text)) for one in _BY_PART.get(part, ())]
    if not text.isascii():
        near += _OTHERS
    if not near:
        return []
    of_derby = of_derby or _DERBY_CLASS in text
    starts = [found.end() for found in _SQL_EXCEPTION.finditer(text)]
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
    # A message that begins with the words of another is not the other.
    return shown + [
        known
        for first, last, known in spans
        if not any(start <= first and last <= end and start - end < first - last for start, end, _ in spans)
    ]


def _span_of(sign: Sign, text: str, of_derby: bool, starts: list[int]) -> tuple[int, int] | None:
    """Where a text has a sign that counts there, or None."""
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
    """Whether a text has some pieces in their order."""
    return _span(text, pieces, 0) is not None
