"""All known messages, by their words and by the pieces of text that show them."""

from __future__ import annotations

import re
from typing import Final

from engine.rescue.messages.bare import BARE
from engine.rescue.messages.derby_asian import ASIAN
from engine.rescue.messages.derby_english import ENGLISH
from engine.rescue.messages.derby_european import EUROPEAN
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
PHRASES: Final = tuple(
    (tuple(piece.split("\u2026")), BY_WORD[code])
    for code, piece in (
        *ENGLISH.items(),
        *((code, piece) for code, pieces in EUROPEAN.items() for piece in pieces),
        *((code, piece) for code, pieces in ASIAN.items() for piece in pieces),
    )
)
# Rows that make a word more precise, by that word: reports of other messages, and all others.
REPORTS: Final[dict[str, list[KnownMessage]]] = {}
REFINEMENTS: Final[dict[str, list[KnownMessage]]] = {}
for _known in WITH_SIGNS:
    for _refined in _known.refines:
        (REPORTS if _known.wrapper else REFINEMENTS).setdefault(_refined, []).append(_known)

_PART: Final = re.compile(r"\w+")

# Pieces of text with their message, by the longest word of the longest piece: no line is compared with all of them.
_Pieces = tuple[tuple[str, ...], KnownMessage]
_BY_PART: Final[dict[str, list[_Pieces]]] = {}
_OTHERS: Final[list[_Pieces]] = []


def _index() -> None:
    every = [(known.signs, known) for known in WITH_SIGNS if not known.refines] + list(PHRASES)
    for pieces, known in every:
        if "".join(pieces).isascii():
            part = max(_PART.findall(max(pieces, key=len)), key=len)
            _BY_PART.setdefault(part, []).append((pieces, known))
        else:
            _OTHERS.append((pieces, known))


_index()


def shown_by(text: str) -> list[KnownMessage]:
    """The messages that a text shows without their words; those of JE and the frontends come first."""
    near = [one for part in dict.fromkeys(_PART.findall(text)) for one in _BY_PART.get(part, ())]
    if not text.isascii():
        near += _OTHERS
    return [known for pieces, known in near if has(text, pieces)]


def has(text: str, pieces: tuple[str, ...]) -> bool:
    """Whether a text has some pieces in their order."""
    at = 0
    for piece in pieces:
        at = text.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return True
