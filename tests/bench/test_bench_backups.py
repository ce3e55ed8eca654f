"""The bench of backups, with a log that is too small to say anything."""

from __future__ import annotations

from pathlib import Path

from tests.bench.backups import measure


def test_every_command_runs(tmp_path: Path) -> None:
    found = measure(tmp_path, 0.2, 1)
    assert set(found) == {"cp", "backup", "verify --sums", "verify", "restore"}
    assert all(speed > 0 for speed in found.values())
