"""JE-LOG-031: two processes have written one log, and every level that reads the file says so."""

from __future__ import annotations

import pytest

from tests.support.damage.two_writers import NAME, both, two_continuations
from tests.support.logs.log_writer import report


@pytest.mark.parametrize("levels", [("tail",), ("log", "tail"), ("tree",), ("data",)], ids=lambda levels: levels[0])
def test_two_writers(levels: tuple[str, ...]) -> None:
    codes = [finding.code for finding in report({NAME: both(1)}, levels).findings]
    assert codes.count("JE-LOG-031") == 1
    assert "JE-LOG-031" not in [finding.code for finding in report({NAME: two_continuations()[2]}, levels).findings]
