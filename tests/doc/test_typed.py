"""``engine/doc/typed.md``: every line is run, and does what the table says."""

from __future__ import annotations

import glob
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support import corpus
from tests.support.children import child
from tests.support.environments.frontends import rolled, write_frontend
from tests.support.harness import REPOSITORY, run, spawn

PAGE: Final = REPOSITORY / "engine" / "doc" / "typed.md"


class TypedLine(NamedTuple):
    """A row of the table."""

    typed: str
    code: str
    shown: str


def _lines() -> list[TypedLine]:
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| `"):
            assert len(cells) == 4, line
            found.append(TypedLine(cells[0].strip("`"), cells[1], cells[3].strip("`")))
    return found


LINES: Final = _lines()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directories and files that the page names."""
    monkeypatch.chdir(tmp_path)
    for name, databases in (("env", ("users",)), ("two", ("users", "groups"))):
        assert run("create", name, *(word for one in databases for word in ("--db", one))).code == 0
        assert run("put", name, "ada", "1", "--db", "users").code == 0
    assert run("create", "store", "--store", "derby", "--db", "t").code == 0
    Path("fe/meta/bdb").mkdir(parents=True)
    write_frontend(tmp_path / "fe" / "meta" / "bdb", rolled(1, 20, 100), replicated=True)
    corpus.copy(corpus.path() / "je/je-18.3.20/corrupt-middle/env", tmp_path / "damaged")
    Path("envs").mkdir()
    for name in ("a", "b"):
        assert run("create", f"envs/{name}", "--db", "d").code == 0
    Path("envs/README").write_text("")
    Path("orders.csv").write_text("id,v\n1,a\n")
    Path("fe.log").write_text("com.sleepycat.je.EnvironmentFailureException: LOG_CHECKSUM: wrong at 0x5/0x80e\n")
    return tmp_path


def _words(typed: str) -> list[str]:
    words = [found for word in shlex.split(typed) for found in (sorted(glob.glob(word)) if "*" in word else [word])]
    assert words.pop(0) == "jetool"
    return words


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("line", LINES, ids=lambda line: line.typed)
def test_a_line_does_what_the_page_says(line: TypedLine, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, _, typed = line.typed.rpartition("inside: ")
    if "inside: " in line.typed:
        assert inside == ""
        monkeypatch.chdir("env")
    if line.code == "-":
        with child([sys.executable, "-m", "jetool", *_words(typed)], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            seen = [process.stdout.readline() for _ in range(3)]
            assert process.poll() is None
        assert line.shown in "".join(seen)
        return
    typed, _, source = typed.partition(" < ")
    if source:
        done = spawn(*_words(typed), input=Path(source).read_bytes())
        code, shown = done.returncode, (done.stdout + done.stderr).decode()
    else:
        result = run(*_words(typed))
        code, shown = result.code, result.text + result.err
    assert str(code) == line.code, shown
    assert line.shown in shown


def test_the_page_has_forty_lines() -> None:
    assert len(LINES) >= 40
    assert len({line.typed for line in LINES}) == len(LINES)
    # A text that every output has would show nothing.
    assert not [line for line in LINES if len(line.shown) < 3 or re.fullmatch(r"[\s.]*", line.shown)]
    assert os.path.exists(PAGE)
