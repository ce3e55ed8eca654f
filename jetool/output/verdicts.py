"""The fields of a verdict, and its line of text.

A record with a verdict has a word of ``engine.verdict.VERDICTS`` and, right after it, the field ``why``. Text prints
both as its first line instead of among the other fields.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

from engine.fields import Choices, Row, Text, record
from engine.verdict import DAMAGED, DIFFERENT, UNJUDGED, VERDICTS, CheckVerdict

_WHY: Final = "why"
_RED: Final = frozenset((DAMAGED, DIFFERENT))


VERDICT_HELP: Final = "; ".join(f"{word}: {meaning}" for word, meaning in VERDICTS.items())


@record()
class VerdictFields(NamedTuple):
    """A verdict."""

    verdict: Annotated[Text, "the result in one word; " + VERDICT_HELP, Choices(tuple(VERDICTS))]
    why: Annotated[Text, "what the verdict rests on"]


def split_verdict(row: Row) -> tuple[str, Row]:
    """The verdict of a row as one line (empty if it has none), and the other fields."""
    at = next((at for at, (name, _, _) in enumerate(row) if name == _WHY), 0)
    if at == 0 or row[at - 1][2] not in VERDICTS:
        return "", row
    return CheckVerdict(str(row[at - 1][2]), str(row[at][2])).in_words(), [*row[: at - 1], *row[at + 1 :]]


def colored(line: str) -> str:
    """The line of a verdict in bold: red for what is wrong, yellow for what is not known."""
    word = line.partition(":")[0]
    color = "31" if word in _RED else "33" if word == UNJUDGED else "1"
    return f"\x1b[1;{color}m{line}\x1b[0m"
