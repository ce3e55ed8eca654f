"""Helper modules of the tests: what more than one test package uses stands in ``tests.support``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.modules import ROOT, tree_of

TESTS = ROOT / "tests"
# Programs for hours, whose parts another package's short tests run.
DRILLS = {
    "tests.cleaner.beside_je",
    "tests.db.crash_points",
    "tests.rescue.salvage_drill",
    "tests.verify.level_drill",
}
# The architecture shows the bounds that tests of the house hold.
BOUNDS = ("tests.doc", "tests.house")


@cache
def _modules() -> dict[str, Path]:
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in TESTS.rglob("*.py")}


def _imports() -> Iterator[tuple[str, str]]:
    """(importing module, imported module) for every import of one test module by another."""
    modules = _modules()
    for name, path in modules.items():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tests"):
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    yield name, full if full in modules else node.module


def _package(module: str) -> str:
    return ".".join(module.split(".")[:2])


def test_shared_helpers_are_in_one_place() -> None:
    shared = {
        imported
        for importing, imported in _imports()
        if _package(importing) != _package(imported) and _package(imported) != "tests.support"
        if (_package(importing), _package(imported)) != BOUNDS
    }
    assert shared <= DRILLS


def test_support_rests_on_nothing_else() -> None:
    found = {
        (importing, imported)
        for importing, imported in _imports()
        if _package(importing) == "tests.support" and _package(imported) != "tests.support"
    }
    assert found == set()


def test_parts_of_samples_are_whole_in_the_native_stage() -> None:
    """A test that takes a part in pure code (``tests.support.samples``) is among those of ``.ci/run native``."""
    stage = (ROOT / ".ci" / "run").read_text().partition("native() (")[2].partition("\n)\n")[0]
    native = [word for word in stage.split() if word.startswith("tests/")]
    assert len(native) > 15
    for path in (ROOT / "tests").rglob("test_*.py"):
        name = path.relative_to(ROOT).as_posix()
        if "\nfrom tests.support.samples import" in path.read_text():
            assert any(name == one or name.startswith(f"{one}/") for one in native), name
