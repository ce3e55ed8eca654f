"""The bench of the cleaner on a small log: it is cleaned, and the figures are those of the directory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench import cleaner


def test_the_log_stays_small(tmp_path: Path) -> None:
    found = cleaner.measure(tmp_path / "env", keys=200, updates=4_000, file_max=60_000)
    assert found.files_cleaned > 3
    assert found.bytes == cleaner.log_bytes(tmp_path / "env")
    assert found.bytes < 400_000 < 4_000 * 150


def test_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert cleaner.main(["--keys", "50", "--updates", "200", "--je-classpath", ""]) == 0
    assert json.loads(capsys.readouterr().out)["updates"] == 200
