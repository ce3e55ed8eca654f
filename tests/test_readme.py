"""The README shows real output: every console block is run, and its two command lines name what exists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
README = (REPOSITORY / "README.md").read_text()
BLOCKS = re.findall(r"```console\n(.*?)```", README, re.DOTALL)


def run(line: str, directory: Path) -> str:
    shim = directory / "jetool"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m jetool "$@"\n')
    shim.chmod(0o755)
    environment = {**os.environ, "PATH": f"{directory}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        ["sh", "-c", line], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0][2:40])
def test_output_in_the_readme(block: str, tmp_path: Path) -> None:
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    script = "\n".join(part.partition("\n")[0] for part in parts)
    expected = "".join(part.partition("\n")[2] for part in parts)
    assert run(script, tmp_path) == expected


def test_there_are_blocks() -> None:
    assert len(BLOCKS) >= 4


def test_the_first_command_line_names_an_environment_of_this_repository() -> None:
    line = next(line for line in README.splitlines() if "pip install -q '.[spark]' " in line)
    assert (REPOSITORY / line.split()[-1]).is_dir()
    assert all((REPOSITORY / word).is_file() for word in line.split() if word.startswith("examples/"))


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 150


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)]+)\)", README))))
def test_links_lead_to_files(link: str) -> None:
    assert (REPOSITORY / link).exists()
