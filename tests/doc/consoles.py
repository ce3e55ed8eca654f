"""Documents whose ``console`` blocks are run from top to bottom: ``python -m tests.doc.consoles PAGE`` writes the output.

All blocks of a page run in one directory, each line in a shell of its own. What differs between two runs, the directory
and the times of saved bytes, is replaced.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.support.harness import environment
from tests.support.waiting import PATIENCE_S

BLOCK: Final = re.compile(r"(?<=^```console\n).*?(?=^```)", re.MULTILINE | re.DOTALL)
HOME: Final = "/home/ada"
_SAVED: Final = re.compile(r"\d{8}T\d{6}\.\d{3}Z")
_TIME: Final = "20261128T100000.000Z"


def rendered(text: str, directory: Path) -> str:
    """The page with the output of its commands.

    Arguments:
        directory: an empty one, in which the commands run.
    """
    tools, home = directory / "bin", directory / "home"
    tools.mkdir()
    home.mkdir()
    shim = tools / "jetool"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m jetool "$@"\n')
    shim.chmod(0o755)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    return BLOCK.sub(lambda block: "".join(_lines(block[0], home, environment(PATH=path))), text)


def _lines(block: str, home: Path, variables: dict[str, str]) -> list[str]:
    found = []
    for line in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=home,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        found.append(f"$ {line}\n{_SAVED.sub(_TIME, done.stdout.replace(str(home.resolve()), HOME))}")
    return found


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as made:
            page = Path(name)
            page.write_text(rendered(page.read_text(encoding="utf-8"), Path(made)), encoding="utf-8")
