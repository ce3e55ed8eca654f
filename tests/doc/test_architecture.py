"""The walks of ARCHITECTURE.md name files and functions that exist; its bounds are those that tests hold."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.house import test_bounds, test_import_graph, test_private, test_walks

REPOSITORY = Path(__file__).resolve().parents[2]
TEXT = (REPOSITORY / "ARCHITECTURE.md").read_text()
WALKS = TEXT[TEXT.index("## Seven walks") : TEXT.index("## Glossary")]
FLOORS = TEXT[TEXT.index("## Floors") : TEXT.index("## Seven walks")]
PLACE = re.compile(r"`((?:engine|jetool)/[\w/]+\.py)`\s+`([\w.]+)`")


@cache
def names(path: str) -> set[str]:
    found: set[str] = set()
    for node in ast.parse((REPOSITORY / path).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    return found


@pytest.mark.parametrize(("path", "name"), PLACE.findall(WALKS))
def test_a_step_names_what_is_there(path: str, name: str) -> None:
    assert name in names(path)


def test_every_walk_has_its_steps() -> None:
    walks = re.split(r"^### ", WALKS, flags=re.MULTILINE)[1:]
    assert len(walks) == 7
    for walk in walks:
        assert len(PLACE.findall(walk)) >= 5, walk.splitlines()[0]


def test_every_package_is_on_a_floor() -> None:
    packages = {f"engine.{path.parent.name}" for path in (REPOSITORY / "engine").glob("*/__init__.py")}
    assert {name for name in packages if f"`{name}`" not in FLOORS} == set()


def test_bounds_are_those_that_are_held() -> None:
    """The last table: a number, and the constant of ``tests/house`` that it is."""
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \| `([\w.]+)` \|$", TEXT[TEXT.index("## Bounds") :], re.MULTILINE)
    modules = {
        module.__name__.rpartition(".")[2]: module
        for module in (test_bounds, test_import_graph, test_private, test_walks)
    }
    assert len(rows) >= 13
    for what, number, place in rows:
        module, _, name = place.partition(".")
        held = getattr(modules[module], name) if name else 0
        if isinstance(held, dict):
            # A bound for each walk, by the name of its command.
            held = next(most for walk, most in held.items() if f"`{walk.split()[0]}`" in what)
        assert held == int(number), what
