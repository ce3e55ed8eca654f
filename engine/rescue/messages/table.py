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
from engine.rescue.messages.je_reasons import REASONS
from engine.rescue.messages.je_store_texts import STORE_TEXTS
from engine.rescue.messages.je_stream_texts import STREAM_TEXTS
from engine.rescue.messages.je_texts import TEXTS

OF_JE: Final = (*REASONS, *EXCEPTIONS, *TEXTS, *STREAM_TEXTS, *STORE_TEXTS, *FRONTEND_TEXTS)
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

_PART: Final = re.compile(r"\w+")


def _keys() -> frozenset[str]:
    """The longest word of each piece: a line without any of them shows no message by its text."""
    pieces = [known.signs[0] for known in WITH_SIGNS] + [
        max(pieces, key=len) for pieces, _ in PHRASES if "".join(pieces).isascii()
    ]
    return frozenset(max(_PART.findall(piece), key=len) for piece in pieces)


_KEYS: Final = _keys()


def may_show(line: str) -> bool:
    """Whether a line may hold the first piece of a message that has no word."""
    return not line.isascii() or not _KEYS.isdisjoint(_PART.findall(line))
