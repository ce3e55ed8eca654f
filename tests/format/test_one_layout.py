"""Fields of headers are found by name: their offsets are numbers in ``engine.format`` and nowhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.format.fast.header import LINK, PLAIN_HEADER, SUMMED_HEADER
from engine.format.header import (
    CHECKSUM_BYTES,
    FLAGS_AT,
    HEADER,
    HEADER_BYTES,
    HEADER_WITH_VLSN_BYTES,
    PREV_AT,
    SIZE_AT,
    TYPE_AT,
)
from tests.support.modules import is_derbys

ROOT = Path(__file__).parent.parent.parent
# Variables that hold entries, or begin with one.
HOLDERS = {"data", "entry", "head", "header", "start", "raw", "buffer", "piece", "matrix", "rest"}
OFFSETS = {CHECKSUM_BYTES, TYPE_AT, FLAGS_AT, PREV_AT, SIZE_AT, HEADER_BYTES, HEADER_WITH_VLSN_BYTES}
LAYOUTS = {layout.format for layout in (HEADER, PLAIN_HEADER, LINK, SUMMED_HEADER)}
# Other layers have layouts of their own: pages, messages between nodes, journals.
ELSEWHERE = ("engine/format/", "engine/derby/", "engine/rep/", "engine/storage/")


def numbers(place: ast.AST) -> Iterator[int]:
    """Numbers of an index or a slice, also those that are added to a position."""
    for node in ast.walk(place):
        if isinstance(node, ast.Constant) and type(node.value) is int:
            yield node.value


def complaints(source: str) -> list[int]:
    """Lines with an offset or a layout of a header."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and node.value in LAYOUTS:
            found.append(node.lineno)
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in HOLDERS:
            found += [node.lineno] if OFFSETS.intersection(numbers(node.slice)) else []
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            name = target.id if isinstance(target, ast.Name) else ""
            offset = type(node.value.value) is int and name.strip("_").endswith(("TYPE_AT", "FLAGS_AT", "PREV_AT"))
            found += [node.lineno] if offset else []
    return found


def test_sources_take_offsets_by_name() -> None:
    found = []
    for package in ("engine", "jetool"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(ELSEWHERE) and not is_derbys(name):
                found += [f"{name}:{line}" for line in complaints(path.read_text("utf-8"))]
    assert found == []


@pytest.mark.parametrize(
    ("planted", "refused"),
    [
        ("flags = data[5]", True),
        ("number = data[pos + 4]", True),
        ("size = int.from_bytes(head[10:14], 'little')", True),
        ("matrix[:, 6:10] = previous", True),
        ("_HEADER = Struct('<IBBIi')", True),
        ("_FLAGS_AT: Final = 5", True),
        ("flags = data[FLAGS_AT]", False),
        ("number = data[pos + TYPE_AT]", False),
        ("key = data[0:3]", False),
        ("_FLAGS_AT: Final = header.FLAGS_AT", False),
    ],
)
def test_what_is_refused(planted: str, refused: bool) -> None:
    assert bool(complaints(planted)) is refused


def test_every_fast_module_names_its_twin_and_its_test() -> None:
    package = ROOT / "engine" / "format" / "fast"
    modules = [path for path in sorted(package.glob("*.py")) if path.name != "__init__.py"]
    listed = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""
    for path in modules:
        said = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        assert re.search("[Tt]wins?: ``", said) or path.stem == "walks", path.name
        assert f"``{path.stem}" in listed or path.stem == "walks", path.name
    tests = set(re.findall(r"``(tests/[^`]+\.py)``", listed))
    assert len(tests) > 5
    assert [name for name in tests if not (ROOT / name).is_file()] == []
