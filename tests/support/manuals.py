"""The pages of the manual, and the calls of jetool in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.harness import REPOSITORY

MAN = REPOSITORY / "man"


class Call(NamedTuple):
    """A call of jetool in a page; ``in_block``: in a block of code, not in a sentence."""

    heading: str
    words: list[str]
    in_block: bool


def calls_in(path: Path) -> Iterator[Call]:
    """Every call of jetool in a page."""
    heading, fenced = "", False
    for line in path.read_text().splitlines():
        fenced ^= line.startswith("```")
        heading = line.removeprefix("## ") if line.startswith("## ") else heading
        calls = [line] if fenced else re.findall(r"`(jetool [^`]+)`", line)
        for call in (one for text in calls for one in text.split("|")):
            words = shlex.split(call)
            if words[:1] == ["jetool"]:
                yield Call(heading, words[1:], fenced)
