"""``engine/doc/tutorial.md`` shows real output."""

from __future__ import annotations

from pathlib import Path

from tests.doc.consoles import BLOCK, rendered
from tests.support.harness import REPOSITORY
from tests.support.tools import needs

PAGE = REPOSITORY / "engine" / "doc" / "tutorial.md"


def test_the_tutorial(tmp_path: Path) -> None:
    # Without pyarrow the file is read line by line, and the log has other LSNs.
    needs("pyarrow")
    text = PAGE.read_text(encoding="utf-8")
    assert rendered(text, tmp_path) == text, "run: python -m tests.doc.consoles engine/doc/tutorial.md"
    assert len(BLOCK.findall(text)) > 10


def test_another_output_is_noticed(tmp_path: Path) -> None:
    text = "```console\n$ echo one\ntwo\n$ pwd\n```\n"
    assert rendered(text, tmp_path) == "```console\n$ echo one\none\n$ pwd\n/home/ada\n```\n"
