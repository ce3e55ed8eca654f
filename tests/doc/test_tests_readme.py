"""Paths, dotted names, modules and stages in tests/README.md exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.support import corpus
from tests.support.harness import REPOSITORY

TEXT = (REPOSITORY / "tests" / "README.md").read_text()
CODE = "\n".join(re.findall(r"^```sh\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))
QUOTED = sorted(set(re.findall(r"`([^`\n]+)`", TEXT)))
NAMES = [text for text in QUOTED if re.fullmatch(r"(?:tests|engine|jetool)(?:\.\w+)+", text)]
PATHS = sorted(
    {text for text in QUOTED if re.fullmatch(r"[\w.-]+(?:/[\w.-]+)+|[\w.-]+\.(?:py|md)", text)}
    | set(re.findall(r"\btests/\w+", CODE))
)
MODULES = sorted(set(re.findall(r"python -m (tests[\w.]*)", CODE)))


@cache
def members(path: Path) -> dict[str, ast.stmt]:
    """What a module or a package defines at its top."""
    return _defined(ast.parse(path.read_text()).body)


def _defined(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    found: dict[str, ast.stmt] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
        elif isinstance(node, ast.Assign):
            found |= {target.id: node for target in node.targets if isinstance(target, ast.Name)}
    return found


def exists(name: str) -> bool:
    """Whether a dotted name is a package, a module, or something that a module or a class in it defines."""
    place, words = REPOSITORY, name.split(".")
    while words and (place / words[0]).is_dir():
        place /= words.pop(0)
    if not words:
        return (place / "__init__.py").is_file()
    module = place / f"{words.pop(0)}.py"
    if not module.is_file():
        return False
    known = members(module)
    for at, word in enumerate(words):
        node = known.get(word)
        if node is None:
            return False
        known = _defined(node.body) if isinstance(node, ast.ClassDef) and at + 1 < len(words) else {}
    return True


@pytest.mark.parametrize("name", NAMES)
def test_a_name_exists(name: str) -> None:
    assert exists(name)


@pytest.mark.parametrize("path", PATHS)
def test_a_path_exists(path: str) -> None:
    assert (REPOSITORY / path).exists()


@pytest.mark.parametrize("module", MODULES)
def test_a_program_exists(module: str) -> None:
    place = REPOSITORY.joinpath(*module.split("."))
    source = place / "__main__.py" if place.is_dir() else place.with_suffix(".py")
    assert 'if __name__ == "__main__":' in source.read_text()


def test_directories_of_the_corpus_are_named() -> None:
    names = {f"{path.name}/" for path in corpus.path().iterdir() if path.is_dir()}
    assert names <= set(QUOTED)


def stages() -> list[str]:
    """The stages that ``.ci/run`` runs, in order."""
    found = re.search(r"STAGES=\((format .*)\)", (REPOSITORY / ".ci/run").read_text())
    assert found is not None
    return found[1].split()


def test_stages_of_ci_are_named() -> None:
    written = re.search(r"runs the stages ([\w, ]+?)\.", TEXT)
    assert written is not None
    assert re.split(r", | and ", written[1]) == stages()


def test_stages_of_ci_are_explained() -> None:
    """In CONTRIBUTING.md, a list in the same order."""
    text = (REPOSITORY / "CONTRIBUTING.md").read_text()
    items = re.findall(r"^\* ((?:\*\*\w+\*\*(?:, )?)+): ", text, re.MULTILINE)
    assert [name for item in items for name in re.findall(r"\w+", item)] == stages()


def test_every_stage_of_ci_can_be_called() -> None:
    text = (REPOSITORY / ".ci/run").read_text()
    body = text[text.index("\nstage() {") : text.index("\nfor name in")]
    assert re.findall(r"^ {8}(\w+)\) ", body, re.MULTILINE) != []
    assert set(re.findall(r"^ {8}(\w+)\) ", body, re.MULTILINE)) == set(stages())
    # In its first lines, and in what it says of an unknown stage.
    assert text.count(" ".join(stages())) == 3


def test_it_is_found_and_short() -> None:
    """So that a change of form does not empty the tests above."""
    assert len(NAMES) > 50
    assert len(PATHS) > 20
    assert len(MODULES) > 8
    assert len(TEXT.splitlines()) <= 150


@pytest.mark.parametrize(
    "name", ["tests.support.harness.ran", "tests.nowhere", "engine.storage.crash.CrashStorage.none"]
)
def test_a_name_that_is_gone_is_noticed(name: str) -> None:
    assert not exists(name)
