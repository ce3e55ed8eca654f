"""Tests look at what is public: they read, import and patch no private name, and patch no clock or patience."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests.support.modules import ROOT, tree_of

MOST_PRIVATE_ACCESSES: Final = 0
MOST_PRIVATE_IMPORTS: Final = 0
MOST_PRIVATE_PATCHES: Final = 0
MOST_PATCHED_CLOCKS: Final = 0
# One underscore; names with two of them at both ends are Python's.
PRIVATE: Final = re.compile(r"_[A-Za-z]\w*")
# Of named tuples, and of modules of Python, in spite of their names.
PUBLIC: Final = {"_asdict", "_current_frames", "_exit", "_fields", "_make", "_replace"}
CLOCK: Final = re.compile(r"(_S|_MS|_s|_ms)$|clock|\.time$|monotonic|sleep|PATIENCE|PAUSE|TIMEOUT")
OWN: Final = ("self", "cls")
SETTERS: Final = {"setattr", "delattr", "__setattr__", "object", "patch"}


def accesses(tree: ast.AST) -> Iterator[int]:
    """Lines that read or write a private attribute of something that this file does not define."""
    own = set(_defined(tree))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not PRIVATE.fullmatch(node.attr) or node.attr in PUBLIC | own:
            continue
        if not (isinstance(node.value, ast.Name) and node.value.id in OWN):
            yield node.lineno


def _defined(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in OWN:
            yield node.attr


def private_imports(tree: ast.AST) -> Iterator[int]:
    """Lines that import a private name, or from a private module, of this repository."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("engine", "jetool", "tests"):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Import):
            found = [alias.name.split(".") for alias in node.names]
            names = [name for parts in found if parts[0] in ("engine", "jetool", "tests") for name in parts]
        else:
            continue
        if any(PRIVATE.fullmatch(name) for name in names):
            yield node.lineno


def _patched(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that is set, deleted or replaced by name."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        first, *rest = node.args
        if called not in SETTERS:
            continue
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield node.lineno, first.value
        elif rest and isinstance(rest[0], ast.Constant) and isinstance(rest[0].value, str):
            yield node.lineno, f"{ast.unparse(first)}.{rest[0].value}"


def private_patches(tree: ast.AST) -> Iterator[int]:
    """Lines that replace a private name, or something of one."""
    for line, name in _patched(tree):
        if any(PRIVATE.fullmatch(part) and part not in PUBLIC for part in name.split(".")):
            yield line


def patched_clocks(tree: ast.AST) -> Iterator[int]:
    """Lines that replace a clock, a pause or a patience: these are arguments."""
    for line, name in _patched(tree):
        if CLOCK.search(name):
            yield line


@pytest.mark.parametrize(
    ("look", "most"),
    [
        (accesses, MOST_PRIVATE_ACCESSES),
        (private_imports, MOST_PRIVATE_IMPORTS),
        (private_patches, MOST_PRIVATE_PATCHES),
        (patched_clocks, MOST_PATCHED_CLOCKS),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_tests_look_at_what_is_public(look: Callable[[ast.AST], Iterator[int]], most: int) -> None:
    files = sorted((ROOT / "tests").rglob("*.py"))
    assert len(files) > 500
    found = [f"{path.relative_to(ROOT)}:{line}" for path in files for line in look(tree_of(path))]
    assert len(found) <= most, found


@pytest.mark.parametrize(
    ("look", "code"),
    [
        (accesses, "node._term.gate"),
        (accesses, "gate._timeout_s = 5"),
        (accesses, "table._ELSEWHERE"),
        (accesses, "class Other:\n    def look(self):\n        return self.inner._left"),
        (private_imports, "from engine.log.scan import LogScan, _backward"),
        (private_imports, "from jetool.output._text import fold"),
        (private_imports, "import tests.support._names"),
        (private_patches, "monkeypatch.setattr(node, '_leave', watched)"),
        (private_patches, "monkeypatch.setattr('engine.rep.member.home._MOST_REPLAYED', 10)"),
        (private_patches, "monkeypatch.setattr('engine.rescue.points._Walk.take', taken)"),
        (private_patches, "setattr(node, '_leave', watched)"),
        (private_patches, "mock.patch.object(node, '_leave')"),
        (patched_clocks, "monkeypatch.setattr('engine.rep.master.feeder.HEARTBEAT_S', 0.05)"),
        (patched_clocks, "monkeypatch.setattr(messages.time, 'monotonic', lambda: 0)"),
        (patched_clocks, "monkeypatch.setattr(time, 'sleep', print)"),
        (patched_clocks, "patch.setattr(gate, 'timeout_s', 5)"),
    ],
)
def test_what_is_found(look: Callable[[ast.AST], Iterator[int]], code: str) -> None:
    assert list(look(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "self._left, cls._right",
        "record._replace(time=0)._asdict()",
        "os._exit(1)",
        "type(x).__name__",
        "class Other:\n    def __init__(self):\n        self._left = 1\nother._left",
        "from engine.log.scan import LogScan",
        "monkeypatch.setattr(replica, 'round', bug)",
        "monkeypatch.setattr(Environment, '__init__', noted)",
        "gate.timeout_s = 5",
    ],
)
def test_what_is_left_alone(code: str) -> None:
    tree = ast.parse(code)
    assert [*accesses(tree), *private_imports(tree), *private_patches(tree), *patched_clocks(tree)] == []
