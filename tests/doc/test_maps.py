"""What docstrings say of the tree is there: maps of packages are complete, and dotted names lead to something."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
# A command's package is as long as its list would be.
MAPPED = sorted(
    path.parent.relative_to(REPOSITORY).as_posix()
    for top in ("engine", "jetool")
    for path in (REPOSITORY / top).rglob("__init__.py")
    if "commands" not in path.parts and path.parent.name != "jetool"
)
DOTTED = re.compile(r"``((?:engine|jetool)(?:\.\w+)+)``")
# Files that jetool leaves, and groups of entry points, named as modules are.
FILES = {"jetool.contents", "jetool.orders", "jetool.pages", "jetool.repair"}


def modules_of(package: Path) -> set[str]:
    files = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
    return files | {path.parent.name for path in package.glob("*/__init__.py")}


def docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text())) or ""


@pytest.mark.parametrize("package", MAPPED)
def test_a_package_names_its_modules(package: str) -> None:
    directory = REPOSITORY / package
    words = {
        word for name in re.findall(r"``([\w.]+)``", docstring(directory / "__init__.py")) for word in name.split(".")
    }
    assert modules_of(directory) - words == set()


@pytest.mark.parametrize("package", MAPPED)
def test_a_map_names_nothing_else(package: str) -> None:
    directory = REPOSITORY / package
    text = docstring(directory / "__init__.py")
    listed = {
        name for line in re.findall(r"^\* ((?:``[\w.]+``(?:, )?)+):", text, re.MULTILINE) for name in names_in(line)
    }
    prefix = f"{directory.name}."
    assert {name.removeprefix(prefix).partition(".")[0] for name in listed} - modules_of(directory) == set()


def names_in(line: str) -> list[str]:
    return re.findall(r"``([\w.]+)``", line)


def mentions() -> Iterator[tuple[str, str]]:
    for top in ("engine", "jetool"):
        for path in (REPOSITORY / top).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                    for name in DOTTED.findall(ast.get_docstring(node) or ""):
                        yield path.relative_to(REPOSITORY).as_posix(), name


def leads_somewhere(name: str) -> bool:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        base = REPOSITORY.joinpath(*parts[:length])
        source = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
        if source.is_file():
            rest = parts[length:]
            return not rest or bool(re.search(rf"\b{rest[0]}\b", source.read_text()))
    return False


def test_dotted_names_lead_to_something() -> None:
    found = sorted(mentions())
    assert len(found) > 60
    assert [(path, name) for path, name in found if name not in FILES and not leads_somewhere(name)] == []
