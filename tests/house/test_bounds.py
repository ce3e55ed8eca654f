"""Bounds of the sources: length of files and functions, words, and where a fact or a kind of access may stand."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.modules import PACKAGES, ROOT, sources, tree_of

MOST_LINES: Final = 500
MOST_LINES_OF_A_FUNCTION: Final = 60
MOST_UNFORMATTED: Final = 40
# There were 610 when the house was reviewed.
MOST_ODD_WORDS: Final = 5
ODD_WORDS: Final = re.compile(r"\b(?:so many|[Ww]hoever|[Nn]obody|[Ww]hat of|[Oo]f which|is none(?! of))\b(?! None)")
# Readers below ``engine.log.scan``: they know offsets, windows and headers.
LOW_READERS: Final = {
    "engine.log.reader": {"FileReader"},
    "engine.log.window": {"Window", "look", "next_good"},
    "engine.log.check": {"check_file"},
    "engine.log.passes": {"forward_pieces", "backward_pieces", "picked_pieces", "positions", "raw_at"},
    "engine.format.fast.walks": {"sift", "walk_of", "follow", "pick_open"},
}
MOST_USERS_OF_LOW_READERS: Final = 12
FORMAT_HOMES: Final = ("engine.format.", "engine.storage.base")


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _prose() -> Iterator[tuple[Path, str]]:
    """Every source that people read, with C and stubs."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*")):
            if path.suffix in (".py", ".pyi", ".c"):
                yield path, path.read_text(encoding="utf-8")


def test_files_are_short() -> None:
    assert {name: len(_lines(path)) for name, path in sources().items() if len(_lines(path)) > MOST_LINES} == {}


def test_functions_are_short() -> None:
    found = {
        f"{name}.{node.name}": length
        for name, path in sources().items()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MOST_LINES_OF_A_FUNCTION
    }
    assert found == {}


def test_few_places_are_formatted_by_hand() -> None:
    assert sum(text.count("fmt: skip") + text.count("fmt: off") for _, text in _prose()) <= MOST_UNFORMATTED


def test_few_odd_words() -> None:
    found = [f"{path.relative_to(ROOT)}: {match[0]}" for path, text in _prose() for match in ODD_WORDS.finditer(text)]
    assert len(found) <= MOST_ODD_WORDS, found


@pytest.mark.parametrize("text", ["So here nobody waits", "files of which two", "the type is none", "so many bytes"])
def test_odd_words_are_found(text: str) -> None:
    assert ODD_WORDS.search(text)


def test_few_modules_read_below_a_scan() -> None:
    users = {
        name
        for name, path in sources().items()
        if not name.startswith("engine.log.")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom)
        and LOW_READERS.get(node.module or "", set()) & {alias.name for alias in node.names}
    }
    assert len(users) <= MOST_USERS_OF_LOW_READERS, sorted(users)


def test_one_module_asks_for_the_native_build() -> None:
    """No other module catches the ImportError of an extension in C."""
    extensions = {path.stem for package in PACKAGES for path in (ROOT / package).rglob("*.c")}
    found = set()
    for name, path in sources().items():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Try) and any("ImportError" in ast.unparse(one) for one in node.handlers):
                imported = {
                    alias.name for one in ast.walk(node) if isinstance(one, ast.ImportFrom) for alias in one.names
                }
                if imported & extensions:
                    found.add(name)
    assert extensions
    assert found == set()


def test_a_constant_of_the_format_is_written_once() -> None:
    """No other module gives a number of ``engine.format`` or of the lock file the same name and value.

    Derby has numbers of its own.
    """
    homes: dict[tuple[str, object], str] = {}
    again = []
    for name, path in sorted(sources().items(), key=lambda item: not item[0].startswith(FORMAT_HOMES)):
        for node in tree_of(path).body:
            if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
                continue
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            value = _number(node.value)
            if not isinstance(target, ast.Name) or value is None or not target.id.isupper():
                continue
            if target.id.lstrip("_") == "VERSION":
                # Each protocol and record counts its own versions.
                continue
            constant = target.id.lstrip("_"), value
            if constant in homes and not name.startswith("engine.derby."):
                again.append(f"{name}.{target.id} is {homes[constant]}'s")
            elif name.startswith(FORMAT_HOMES):
                homes[constant] = name
    assert len(homes) > 100
    assert again == []


def _number(node: ast.expr) -> int | bytes | None:
    """A literal number or bytes; None for other expressions."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if isinstance(value, int | bytes) and not isinstance(value, bool) else None
