"""A random sample of the project's prose, for a reader who did not write it.

``python -m tests.house.sentences 31 100`` prints 100 sentences for the seed 31, each with its place: docstrings and
comments of ``engine`` and ``jetool``, the help of options, and paragraphs of the man pages. ``sentences-2813.md`` holds
the last sample with its verdicts.
"""

from __future__ import annotations

import ast
import io
import random
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.support.modules import ROOT, sources, tree_of

_END = re.compile(r"(?<=[.:])\s+(?=[A-Z``])")
_LEAST_WORDS = 5


def sentences() -> list[tuple[str, str]]:
    """Place and text of every sentence of five words or more."""
    found = []
    for place, text in _texts():
        for one in _END.split(" ".join(text.split())):
            if len(one.split()) >= _LEAST_WORDS:
                found.append((place, one))
    return found


def _texts() -> Iterator[tuple[str, str]]:
    for path in sources().values():
        place = str(path.relative_to(ROOT))
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                yield from ((place, part) for part in re.split(r"\n\s*\n|\n(?=\s*(?:\*|[\w, ]+:\s))", text))
            elif isinstance(node, ast.keyword) and node.arg == "help" and isinstance(node.value, ast.Constant):
                yield f"{place} help", str(node.value.value)
        yield from ((place, text) for text in _comments(path))
    for path in sorted((ROOT / "man").rglob("*.[0-9]")):
        text = re.sub(r"^\.\w+.*$", "\n", path.read_text(encoding="utf-8"), flags=re.M)
        for part in re.split(r"\n\s*\n", re.sub(r"\\f.|\\-", "", text)):
            yield str(path.relative_to(ROOT)), part


def _comments(path: Path) -> Iterator[str]:
    """Comments, those on consecutive lines as one text."""
    lines: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type != tokenize.COMMENT or re.match(r"#\s*(?:fmt|noqa|type|pragma)", token.string):
            continue
        if lines and token.start[0] != last + 1:
            yield " ".join(lines)
            lines = []
        lines.append(token.string.lstrip("# "))
        last = token.start[0]
    if lines:
        yield " ".join(lines)


def main(seed: int, count: int) -> None:
    """Print a sample."""
    for number, (place, text) in enumerate(random.Random(seed).sample(sentences(), count), 1):
        print(f"{number:3} {place}: {text}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
