"""Verdicts: what a command has found, in one word, and why.

The words are permanent, since scripts compare them. ``SOUND`` is said only of what was checked completely: a command
that has read a part of the log and met no damage says ``NONE_SEEN``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

SOUND: Final = "sound"
NONE_SEEN: Final = "no damage seen"
DAMAGED: Final = "damaged"
UNJUDGED: Final = "cannot be judged"
EQUAL: Final = "equal"
DIFFERENT: Final = "different"
VERDICTS: Final = {
    SOUND: "everything that the command checks was checked, and nothing is wrong or lost",
    NONE_SEEN: "nothing is wrong in what was read, which is not everything",
    DAMAGED: "something is damaged, missing or lost",
    UNJUDGED: "not everything could be read, and nothing wrong was found in the rest",
    EQUAL: "nothing differs",
    DIFFERENT: "something differs",
}


class CheckVerdict(NamedTuple):
    """A verdict.

    Attributes:
        word: of ``VERDICTS``.
        why: what it rests on.
    """

    word: str
    why: str

    def in_words(self) -> str:
        """The verdict as one line."""
        return f"{self.word}: {self.why}"


def unjudged(why: str) -> str:
    """The line for something that cannot be judged."""
    return CheckVerdict(UNJUDGED, why).in_words()
