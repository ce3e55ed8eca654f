"""What is printed is a record whose class says its fields once, and it is built by keyword."""

from __future__ import annotations

import ast

import pytest

from tests.support.modules import ROOT, sources, tree_of

# Entries of a log have the fields of their type: these two list what can occur, and describe entries by name.
OF_ENTRIES = frozenset(("engine.format.entry_fields", "jetool.commands.dump_log.derby_rows"))
DECLARED_BY = "engine.fields"


def modules() -> dict[str, ast.AST]:
    return {module: tree_of(path) for module, path in sources().items() if module.startswith(("engine.", "jetool."))}


def declared() -> dict[str, list[str]]:
    """Modules by the names of the record classes that they declare."""
    found: dict[str, list[str]] = {}
    for module, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and any(
                ast.unparse(one).startswith("record(") for one in node.decorator_list
            ):
                found.setdefault(node.name, []).append(module)
    return found


def names_in(module: str, tree: ast.AST, homes: dict[str, list[str]]) -> set[str]:
    """Names of record classes that a module declares or imports; the engine has classes of some of these names."""
    imported = {
        one.asname or one.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for one in node.names
        if node.module in homes.get(one.name, ())
    }
    return imported | {name for name, where in homes.items() if module in where}


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def by_position(tree: ast.AST, names: set[str]) -> list[int]:
    return [
        node.lineno for node in ast.walk(tree) if isinstance(node, ast.Call) and called(node) in names and node.args
    ]


def test_records_that_are_printed_are_built_by_keyword() -> None:
    homes = declared()
    assert len(homes) > 150
    assert by_position(ast.parse("Info(env, files=2)"), {"Info"}) == [1]
    found = [
        f"{module}:{line}"
        for module, tree in modules().items()
        for line in by_position(tree, names_in(module, tree, homes))
    ]
    assert found == []


def test_a_record_class_has_one_home() -> None:
    assert {name: where for name, where in declared().items() if len(where) > 1} == {}


@pytest.mark.parametrize("name", ["Field", "Shape"])
def test_fields_are_declared_as_annotations(name: str) -> None:
    found = {
        str(sources()[module].relative_to(ROOT))
        for module, tree in modules().items()
        if module not in OF_ENTRIES and module not in (DECLARED_BY, "engine.format.fields")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and called(node) == name
    }
    assert found == set()
