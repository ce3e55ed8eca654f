"""The bench of backups, with a log that is too small to say anything."""

from __future__ import annotations

from pathlib import Path

from tests.bench.backups import measure, table


def test_every_command_runs(tmp_path: Path) -> None:
    found = measure(tmp_path, 0.2, 1)
    assert set(found) == {"cp", "backup", "verify --sums", "verify", "restore"}
    assert all(speed > 0 for speed in found.values())


def test_bounds_are_judged() -> None:
    found = {"cp": 100.0, "backup": 69.0, "verify --sums": 150.0, "verify": 1.0, "restore": 1.0}
    lines = table(found, 10, 3)
    assert [line.split()[-1] for line in lines if "at least" in line] == ["MISSED", "kept"]
