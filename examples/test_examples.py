"""Runs every example with the words of its own docstring; ``expected/NAME.txt`` is what it must print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent
REPOSITORY = EXAMPLES.parent
CODES = {"is_it_whole": 1}
SCRIPTS = sorted(p for p in EXAMPLES.iterdir() if p.suffix in (".py", ".sh") and not p.name.startswith("test_"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_example(script: Path) -> None:
    words = re.search(rf"^#? *(?:python )?examples/{re.escape(script.name)} (.+)$", script.read_text(), re.MULTILINE)
    assert words is not None, "no call in the docstring"
    program = [sys.executable, str(script)] if script.suffix == ".py" else [str(script)]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [*program, *words[1].split()], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.returncode == CODES.get(script.stem, 0)
    assert done.stdout == (EXAMPLES / "expected" / f"{script.stem}.txt").read_text()


def test_every_example_has_its_output() -> None:
    assert {p.stem for p in SCRIPTS} == {p.stem for p in (EXAMPLES / "expected").iterdir()}
