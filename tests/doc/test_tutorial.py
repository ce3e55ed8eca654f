"""``engine/doc/tutorial.md`` shows real output."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from tests.doc.consoles import BLOCK, rendered
from tests.support.harness import REPOSITORY
from tests.support.tools import needs

PAGE = REPOSITORY / "engine" / "doc" / "tutorial.md"


def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without pyarrow the file is read line by line, and the log has other LSNs.
    needs("pyarrow")
    text = PAGE.read_text(encoding="utf-8")
    assert rendered(text, tmp_path) == text, "run: python -m tests.doc.consoles engine/doc/tutorial.md"
    assert len(BLOCK.findall(text)) > 10
    # The page ends with Python, which goes on where the commands stopped.
    python = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert text.rindex("```console") < text.index("```python")
    monkeypatch.chdir(tmp_path / "home")
    examples = doctest.DocTestParser().get_doctest("\n".join(python), {}, PAGE.name, str(PAGE), 0)
    assert len(examples.examples) > 8
    assert doctest.DocTestRunner().run(examples).failed == 0


def test_the_tutorial_shows_the_whole_way() -> None:
    commands = re.findall(r"^\$ jetool ([a-z-]+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    way = {"create", "load", "scan", "checkpoint", "crash", "doctor", "recover", "dump-log", "undo", "verify"}
    assert way <= set(commands)


def test_another_output_is_noticed(tmp_path: Path) -> None:
    text = "```console\n$ echo one\ntwo\n$ pwd\n```\n"
    assert rendered(text, tmp_path) == "```console\n$ echo one\none\n$ pwd\n/home/ada\n```\n"
