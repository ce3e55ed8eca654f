"""The bench of memory runs, and its table says what grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tools import needs

needs("Spark")

from tests.bench.memory import BOUND_BYTES, Line, kept, main, table


def test_it_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--records", "1500", "--build", "pure", "--directory", str(tmp_path)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line[:16].strip() for line in out[1:-1]] == ["load", "verify", "verify --full"] * 2
    assert out[-1] == "verify within 1024 MiB: kept"
    assert list(tmp_path.iterdir()) == []


def test_growth_and_the_bound() -> None:
    lines = [
        Line("verify", 1_000_000, 10, 1.0, 50_000_000),
        Line("verify", 3_000_000, 30, 3.0, 70_000_000),
    ]
    assert table(lines)[2].split() == ["verify", "3,000,000", "0", "3.0", "70", "10.00"]
    assert kept(lines)
    assert not kept([lines[0]._replace(peak=BOUND_BYTES + 1)])
