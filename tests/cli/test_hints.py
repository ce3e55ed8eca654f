"""Next commands that messages name are commands that exist."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from jetool.frame import table

ROOT = Path(__file__).parent.parent.parent
NAMED = re.compile(r"\bjetool ([a-z][a-z-]+)")
FIELDS = {"hint", "remedy", "next"}


def hints() -> Iterator[tuple[str, str]]:
    """Where each hint stands, and its constant text."""
    for package in ("engine", "jetool"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.keyword) and node.arg in FIELDS:
                    for part in ast.walk(node.value):
                        if isinstance(part, ast.Constant) and isinstance(part.value, str):
                            yield f"{path.relative_to(ROOT)}:{part.lineno}", part.value


def test_hints_name_commands_that_exist() -> None:
    known = {name for row in table.COMMANDS for name in (row.name, *row.aliases)}
    named = [(where, name) for where, text in hints() for name in NAMED.findall(text)]
    assert len(named) > 30
    assert [(where, name) for where, name in named if name not in known] == []
