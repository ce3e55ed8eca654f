"""Counts are spelled by ``engine.errors.plural``: no message says "1 files".

The sources are searched rather than what is printed: most messages of the kind stand where a test seldom gets.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

import pytest

from engine.errors import plural
from tests.support.modules import sources, tree_of

# What is counted in messages, and up to two words in front of it.
_NOUNS: Final = (
    "bits|bytes|characters|columns|commits|databases|deltas|entries|environments|errors|files|findings|flips|items|keys|"
    "lines|mappings|members|nodes|numbers|offsets|others|pages|periods|places|records|rows|slots|stretches|terms|"
    "transactions|voters|votes"
)
# A verb or a preposition in between: what stands in front of it is no count.
_AFTER: Final = re.compile(rf" (?!holds |shows |among |outside )([a-z]+ ){{0,2}}({_NOUNS})\b")


def _uncounted(tree: ast.Module) -> Iterator[ast.JoinedStr]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, after in zip(node.values, node.values[1:], strict=False):
            if not isinstance(value, ast.FormattedValue) or not isinstance(after, ast.Constant):
                continue
            if _AFTER.match(str(after.value)) and not _is_more_than_one(ast.unparse(value.value)):
                yield node


def _is_more_than_one(value: str) -> bool:
    """A constant or a limit of the program; or no number at all."""
    parts = [part.strip("_") for part in value.split(".")]
    return any(part.isupper() for part in parts) or parts[-1] in {"limit", "name"}


def test_the_search_finds_what_it_looks_for() -> None:
    wrong = ast.parse("""f"{count} committed transactions", f"{plural(n, 'file')} of {LIMIT} bytes", f"{x} entries" """)
    assert [ast.unparse(found) for found in _uncounted(wrong)] == [
        "f'{count} committed transactions'",
        "f'{x} entries'",
    ]


def test_no_message_counts_by_itself() -> None:
    found = [
        f"{module}:{node.lineno} {ast.unparse(node)}"
        for module, path in sources().items()
        for node in _uncounted(tree_of(path))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("number", "nouns", "text"),
    [
        (0, ("file",), "0 files"),
        (1, ("file",), "1 file"),
        (2, ("file",), "2 files"),
        (1, ("entry", "entries"), "1 entry"),
        (2, ("entry", "entries"), "2 entries"),
        (1, ("record is", "records are"), "1 record is"),
    ],
)
def test_plural(number: int, nouns: tuple[str, ...], text: str) -> None:
    assert plural(number, *nouns) == text
