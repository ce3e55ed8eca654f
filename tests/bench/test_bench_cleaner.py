"""The bench of the cleaner on a small log: it is cleaned, and the figures are those of the directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import cleaner


@pytest.mark.parametrize("workload", cleaner.WORKLOADS)
def test_the_log_stays_small(tmp_path: Path, workload: str) -> None:
    found = cleaner.measure(tmp_path / "env", 3_000, 60_000, workload=workload, keys=200)
    assert found.files_cleaned > 2
    assert found.bytes == cleaner.log_bytes(tmp_path / "env")
    assert found.bytes < 360_000 < 3_000 * 150


def test_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--only", "updates", "--size", "200", "--build", "pure", "--je-classpath", ""]
    assert cleaner.main(words) == 0
    assert "updates   pure" in capsys.readouterr().out


def test_what_cleaning_costs() -> None:
    on, off = (cleaner.CleanerFigures(1, 1, 1, cpu, 4, deleted) for cpu, deleted in ((5.0, 4_000_000), (3.0, 0)))
    assert cleaner.Both(on, off).ms_per_mb == 500
