"""The bench beside Derby runs on small logs, and judges the native build by the boot of Derby."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.derby import OPEN, SMALL, Figure, kept, main, table
from tests.support.tools import needs


def test_it_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs("Derby", "JDK")
    assert main(["--rows", "40", "--runs", "1", "--build", "pure", "--directory", str(tmp_path)]) == 0
    out = capsys.readouterr().out.splitlines()
    of_one = ["recover   pure", "recover   Derby", "verify    pure", "dump-log  pure"]
    assert [line[20:38].strip() for line in out[1:]] == of_one * 3
    assert list(tmp_path.iterdir()) == []


def figure(log: str, who: str, cpu_s: float) -> Figure:
    return Figure(log, 12.3, "recover", who, 2 * cpu_s, cpu_s, 3)


def test_the_bound_is_for_each_log() -> None:
    figures = [
        figure(SMALL, "native", 2),
        figure(SMALL, "Derby", 2),
        figure(OPEN, "native", 3),
        figure(OPEN, "Derby", 2),
    ]
    assert kept([*figures, figure(SMALL, "pure", 9)]) == {SMALL: True, OPEN: False}
    assert table(figures)[1] == "small           12  recover   native      4.00    2.00     3"
    assert table(figures)[-1] == "recover of open in the CPU time of Derby's boot (native): MISSED"
