"""The bench of command lines runs, and its tables hold what it measured."""

from __future__ import annotations

import json

import pytest

from tests.bench import commands


def test_lines_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--sizes", "0.2", "--runs", "1", "--build", "pure", "--only", "info", "--only", "recover (crashed)"]
    assert commands.main([*words, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert [row["line"] for row in made["lines"]] == ["recover (crashed)", "info"]
    assert all(row["wall_s"] > 0 and row["peak_mb"] > 0 and row["growth"] == row["runs"] == 1 for row in made["lines"])


def row(line: str, build: str, megabytes: int, wall_s: float) -> dict[str, object]:
    return {
        "line": line, "build": build, "megabytes": megabytes, "wall_s": wall_s, "cpu_s": wall_s, "peak_mb": 50,
        "of_je": None, "growth": 1,
    }  # fmt: skip


def test_the_readme_shows_each_size_beside_je() -> None:
    rows = [
        row("info", "native", 1, 0.1),
        row("info", "JE", 1, 0.5),
        row("info", "native", 10, 0.5),
        row("info", "pure", 10, 3),
        row("txns", "native", 10, 2),
        row("info", "JE", 10, 1.5),
    ]
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in commands.as_markdown(rows).splitlines()
        if line[:1] == "|"
    ]
    assert cells[0] == ["command", "1 MB: s", "JE, s", "MB", "JE, MB", "10 MB: s", "JE, s", "MB", "JE, MB"]
    assert cells[2:] == [["`info`", "0.1", "0.5", "50", "50", "0.5", "1.5", "50", "50"]]
