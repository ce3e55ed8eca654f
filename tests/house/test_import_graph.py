"""The import graph has no circle, and folders stay small enough to be read as a list."""

from __future__ import annotations

import sys
from collections import Counter

import pytest

from tests.support.modules import ROOT, imports, sources

MOST_FILES = 25
MOST_FILES_OF_LOG = 16


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected parts of more than one module (Tarjan)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in number:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], number[other])
        if low[name] == number[name]:
            part = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(part) > 1:
                found.append(sorted(part))

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        for name in sorted(graph):
            if name not in number:
                visit(name)
    finally:
        sys.setrecursionlimit(limit)
    return found


def test_circles_are_found() -> None:
    """The check itself: two circles, one of them through a third module, and a module that hangs on both."""
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a", "e"}, "e": {"f"}, "f": {"e"}, "g": {"d"}}
    assert circles(graph) == [["a", "b", "c"], ["e", "f"]]


def test_no_circle() -> None:
    """Imports for type checkers and imports in functions count like any other."""
    graph = imports()
    assert len(graph) > 400
    assert graph["engine.db.database"] >= {"engine.db.cursor", "engine.db.engine"}
    assert circles(graph) == []


@pytest.mark.parametrize(("folder", "most"), [("engine/log", MOST_FILES_OF_LOG), (None, MOST_FILES)])
def test_folders_are_small(folder: str | None, most: int) -> None:
    """A reader can take in the list of a folder."""
    count = Counter(path.parent.relative_to(ROOT).as_posix() for path in sources().values())
    assert count["engine/log"] > 10
    assert {name: files for name, files in count.items() if files > most and folder in (None, name)} == {}


def test_no_circle_of_packages() -> None:
    """The packages of ``engine`` and ``jetool``, each as one: an import in either direction, not in both."""
    graph: dict[str, set[str]] = {}
    for module, found in imports().items():
        package = package_of(module)
        graph.setdefault(package, set()).update(package_of(other) for other in found)
    for package, found in graph.items():
        found.discard(package)
    assert graph["jetool.commands"] >= {"jetool.frame", "jetool.output", "engine.db"}
    assert circles(graph) == []


def package_of(module: str) -> str:
    """The package below ``engine`` or ``jetool``; a module that stands there alone is its own."""
    return ".".join(module.split(".")[:2])
