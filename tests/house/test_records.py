"""How records are built: those of many fields by keyword, and none from a slice of another one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.support.modules import ROOT, sources, tree_of

MOST_POSITIONAL = 6
# The registry is a table of entry types, one a line, read by columns. ``engine.format`` is looked at apart.
TABLES = frozenset(("EntryType",))


def records(more_than: int = 0) -> set[str]:
    """Names of the records of more than so many fields."""
    found = set()
    for path in sources().values():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef) and _is_record(node):
                fields = [line for line in node.body if isinstance(line, ast.AnnAssign)]
                if len(fields) > more_than:
                    found.add(node.name)
    return found - TABLES


def _is_record(node: ast.ClassDef) -> bool:
    bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
    return "NamedTuple" in bases or any("dataclass" in ast.unparse(one) for one in node.decorator_list)


def by_position(tree: ast.AST, names: set[str]) -> Iterator[int]:
    """Lines that build one of these records from too many values without names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node) in names and len(node.args) > MOST_POSITIONAL:
            yield node.lineno


def from_slices(tree: ast.AST, names: set[str]) -> Iterator[int]:
    """Lines that build one of these records from a slice of another one: ``X(*record[2:])``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node) in names:
            for given in node.args:
                value = given.value if isinstance(given, ast.Starred) else None
                if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice):
                    yield node.lineno


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def test_what_is_refused() -> None:
    """The checks themselves."""
    wide = {"Wide"}
    assert list(by_position(ast.parse("Wide(1, 2, 3, 4, 5, 6, 7)"), wide)) == [1]
    assert list(by_position(ast.parse("m.Wide(1, 2, 3, *rest, 5, 6, 7)"), wide)) == [1]
    assert list(by_position(ast.parse("Wide(1, 2, c=3, d=4, e=5, f=6, g=7)"), wide)) == []
    assert list(by_position(ast.parse("wide(1, 2, 3, 4, 5, 6, 7)"), wide)) == []
    assert list(from_slices(ast.parse("Wide(before, *info[2:])"), wide)) == [1]
    assert list(from_slices(ast.parse("m.Wide(*info[:-1])"), wide)) == [1]
    assert list(from_slices(ast.parse("Wide(*info)\nwriter.packed(*info[2:])"), wide)) == []


@pytest.mark.parametrize("package", ["engine"])
def test_records_are_built_by_keyword(package: str) -> None:
    """Nobody counts commas; nobody shifts a field when one is added."""
    names = records(MOST_POSITIONAL)
    assert {"LogEntry", "RecordVersion", "NodeRecord", "CkptEnd"} <= names
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for module, path in sources().items()
        if module.startswith(f"{package}.") and not module.startswith("engine.format.")
        for line in by_position(tree_of(path), names)
    ]
    assert found == []


def test_no_record_is_built_from_a_slice() -> None:
    """The fields of one record are not those of another from somewhere on."""
    names = records()
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for module, path in sources().items()
        if module.startswith("engine.")
        for line in from_slices(tree_of(path), names)
    ]
    assert found == []
