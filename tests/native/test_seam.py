"""One extension and one seam: what the contract names, what the seam hands out, and a differential test for each."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine import native
from tests.support.modules import ROOT, sources, tree_of
from tests.support.native_core import SOURCES, native_core

STUB = ast.parse((SOURCES / "core.pyi").read_text(encoding="utf-8"))
NAMES = {node.name for node in STUB.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
TESTS = "".join(path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("test_*.py")))


def test_the_contract_names_what_the_extension_has() -> None:
    assert {name for name in vars(native_core()) if not name.startswith("_")} == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_each_function_is_documented_and_tested(name: str) -> None:
    node = next(node for node in STUB.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name)
    assert ast.get_docstring(node)
    assert re.search(rf"\bcore\.{name}\b", TESTS)


def test_only_the_seam_imports_the_extension() -> None:
    for name, path in sources().items():
        if name == "engine.native":
            continue
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom) and node.module == "engine.native":
                is_stub = "core" in {alias.name for alias in node.names}
                assert not is_stub or "if TYPE_CHECKING:\n    from engine.native import core\n" in text, name
            assert not (isinstance(node, ast.ImportFrom) and node.module == "engine.native.core"), name


def test_a_function_or_its_twin() -> None:
    def twin() -> int:
        return 7

    assert native.chosen("no such function", twin) is twin
    chosen = native.chosen("most_bytes", twin)
    assert chosen is (native.extension.most_bytes if native.is_native() else twin)


def test_the_extension_needs_nothing_until_a_call() -> None:
    """Importing it reads no module of the format: a start pays for what it uses."""
    code = "import sys, engine.native; print([name for name in sys.modules if name.startswith('engine.')])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = ast.literal_eval(done.stdout)
    assert [name for name in loaded if not name.startswith("engine.native")] == []
