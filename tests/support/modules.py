"""The modules of the product and what they import, read from their sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("engine", "jetool")


@cache
def sources() -> dict[str, Path]:
    """The files by the names of their modules."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


def is_derbys(name: str) -> bool:
    """Whether a module of the command line, by its name or path, serves Derby databases and page stores alone."""
    words = name.removesuffix(".py").replace("/", ".").split(".")
    of_derby = {"page_store", "sql_tables"} & set(words) or "derby" in words[-1].split("_")
    return words[0] == "jetool" and bool(of_derby)


@cache
def tree_of(path: Path) -> ast.Module:
    """The parsed source of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imports() -> dict[str, set[str]]:
    """What each module imports, wherever the statement stands: for type checkers only, or in a function."""
    return {name: set(_imported(name, tree_of(path), set(sources()))) for name, path in sources().items()}


def _imported(module: str, tree: ast.Module, known: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known and alias.name != module)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found = name if name in known else node.module
                if found in known and found != module:
                    yield found
