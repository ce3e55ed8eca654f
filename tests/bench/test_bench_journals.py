"""The bench of journals on a small environment: commands find what was written; the table has a row for each."""

from __future__ import annotations

import pytest

from tests.bench import journals


def test_the_table_has_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert journals.main(["--journals", "3000", "--build", "pure"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("3000 journals, 1 MB of log")
    assert [line.split()[:3] for line in lines[2:]] == [["journal", name, "pure"] for name in journals.BOUNDS]
    assert all(float(line.split()[3]) > 0 for line in lines[2:])
