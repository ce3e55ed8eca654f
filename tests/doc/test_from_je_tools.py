"""``engine/doc/from-je-tools.md``: every row is tried, and no tool of JE is left out."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from jetool.frame import table
from tests.support.harness import REPOSITORY, run

PAGE: Final = REPOSITORY / "engine" / "doc" / "from-je-tools.md"
GOLDEN: Final = REPOSITORY / "tests" / "golden" / "je-17"


class Row(NamedTuple):
    """A row of a table."""

    before: str
    words: list[str]
    code: int
    shown: str


def _sections() -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    heading = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        heading = line.removeprefix("## ") if line.startswith("## ") else heading
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and "`jetool" in line:
            assert len(cells) == 4, line
            words = shlex.split(cells[1].strip("`"))
            assert words.pop(0) == "jetool"
            found.setdefault(heading, []).append(Row(cells[0], words, int(cells[2]), cells[3].strip("`")))
    return found


SECTIONS: Final = _sections()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directories and files that the page names."""
    monkeypatch.chdir(tmp_path)
    copies = {"env": "txn-crash", "damaged": "corrupt-middle", "node": "ha-rollback", "node2": "ha-rollback"}
    for name, source in copies.items():
        shutil.copytree(GOLDEN / source, name)
    shutil.copytree(GOLDEN.parent / "je-archive", "archive")
    assert run("create", "new").code == 0
    assert run("dump", "env", "--db", "accounts", "--output", "accounts.dump").code == 0
    Path("lines.txt").write_text("key\ndata\n")
    assert run("create", "derby", "--store", "derby", "--db", "users").code == 0
    return tmp_path


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("heading", SECTIONS)
def test_the_rows_of_a_section(heading: str) -> None:
    for row in SECTIONS[heading]:
        result = run(*row.words)
        assert result.code == row.code, f"{row}\n{result.text}{result.err}"
        shown = result.text + result.err
        if "--output" in row.words:
            shown = Path(row.words[-1]).read_text()
            assert "HEADER=END" in shown
        else:
            assert len(row.shown) > 3
            assert row.shown in shown, f"{row}\n{shown}"


def test_every_tool_is_named() -> None:
    """The page and ``jetool NAME`` know the same tools."""
    known = {name for name in table.ELSEWHERE if name.startswith("db")}
    assert len(known) > 10
    assert {name.lower() for name in re.findall(r"\bDb[A-Z]\w+", PAGE.read_text(encoding="utf-8"))} == known
