"""The program that compares revisions covers every command, and its files do not say where it ran."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from jetool.frame import cli
from tests.scenarios.outputs import ELSEWHERE, FORMATS, LINES, SPARK_LINES, WORD
from tests.support.harness import REPOSITORY, environment
from tests.support.waiting import PATIENCE_S

PROGRAM = REPOSITORY / "tests/scenarios/outputs.py"


def test_every_command_has_a_line_or_a_reason() -> None:
    assert {name for name, _ in cli.commands()} == LINES.keys() | SPARK_LINES.keys() | ELSEWHERE


def files(directory: Path) -> dict[str, str]:
    return {str(path.relative_to(directory)): path.read_text() for path in directory.rglob("*") if path.is_file()}


def test_files_do_not_depend_on_the_run(tmp_path: Path) -> None:
    words = [sys.executable, str(PROGRAM), str(tmp_path / "made"), "--only", "^golden/je-26/blind$"]
    subprocess.run(words, check=True, env=environment(), capture_output=True, timeout=PATIENCE_S)
    found = files(tmp_path / "made")
    assert {f"golden/je-26/blind/info.{form}" for form in FORMATS} <= set(found)
    assert found["golden/je-26/blind/scan.json"].endswith("exit 0\n")
    assert f'"duration_ms":{WORD}' in found["golden/je-26/blind/recover.json"]
    assert not any("jetool-outputs-" in text for text in found.values())
