"""The bench of command lines runs, and its tables hold what it measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench import commands


def test_lines_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--sizes", "0.2", "--runs", "1", "--build", "pure", "--only", "info", "--only", "recover (crashed)"]
    words += ["--je-classpath", ""]
    assert commands.main([*words, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert [row["line"] for row in made["lines"]] == ["recover (crashed)", "info"]
    assert all(row["wall_s"] > 0 and row["peak_mb"] > 0 and row["growth"] == row["runs"] == 1 for row in made["lines"])


def row(line: str, build: str, megabytes: int, wall_s: float) -> dict[str, object]:
    return {
        "line": line, "build": build, "megabytes": megabytes, "wall_s": wall_s, "cpu_s": wall_s, "peak_mb": 50,
        "of_je": None, "growth": 1,
    }  # fmt: skip


def test_the_readme_shows_the_largest_log_beside_je() -> None:
    rows = [
        row("info", "native", 1, 0.1),
        row("info", "JE", 1, 0.3),
        row("info", "native", 10, 0.5),
        row("info", "pure", 10, 3),
        row("txns", "native", 10, 2),
        row("info", "JE", 10, 1.5),
        row("info", "native", 100, 5),
    ]
    shown = commands.as_markdown(rows)
    assert "on a log of 10 MB" in shown
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in shown.splitlines() if line[:1] == "|"]
    assert cells[2:] == [["`info`", "0.5", "1.5", "0.5", "1.5", "50", "50"]]


def test_logs_are_kept_and_taken_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--runs", "1", "--build", "pure", "--only", "info", "--logs", str(tmp_path), "--json"]
    words += ["--je-classpath", ""]
    assert commands.main(["--sizes", "0.1", *words]) == 0
    made = tmp_path / "0.1"
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*")}
    assert commands.main(["--sizes", "0.1", "0.2", *words]) == 0
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*")} == before
    small, large = json.loads(capsys.readouterr().out.split("\n}\n")[1] + "}")["lines"]
    assert small["growth"] == 1
    rates = [one["wall_s"] / one["megabytes"] for one in (small, large)]
    assert large["growth"] == round(rates[1] / rates[0], 2)


def test_a_log_by_je_needs_its_classes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        commands.main(["--writer", "JE", "--je-classpath", ""])
    assert "--writer JE: name JE's classes with --je-classpath" in capsys.readouterr().err
