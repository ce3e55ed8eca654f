"""``dump-log --format xml`` of log versions 3 to 5, entry by entry equal to what DbPrintLog of JE 18.3.20 prints."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from tests.support.environments.early import NAMES, files_of, said, unpack
from tests.support.harness import run

# Blanks that JE leaves where an attribute has no value.
_BLANKS = re.compile(r"[ \n\t]+")


def lines(text: str) -> list[str]:
    """One element for each entry; JE's blanks and its unescaped text are no part of it."""
    text = _BLANKS.sub(" ", html.unescape(text).replace(' = "', '="'))
    text = text.replace('" >', '">').replace('" />', '"/>').replace("> <", "><")
    return [part.strip() for part in text.split("<entry ")]


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("clean")])
def test_entries_are_those_of_db_print_log(name: str, tmp_path: Path) -> None:
    result = run("dump-log", str(unpack(name, tmp_path / "env")), "--format", "xml")
    assert result.code == 0
    ours, of_je = lines(result.text), lines(said(name, "printed.xml"))
    assert len(of_je) > 10
    assert ours == of_je
    assert {part.split('type="')[1].split('"')[0] for part in of_je[1:]} >= {
        "FileHeader/" + version_of(name),
        "Commit/0",
    }


def version_of(name: str) -> str:
    (data,) = files_of(name).values()
    return str(data[34])
