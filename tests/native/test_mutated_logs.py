"""A sample of the drill ``tests.native.mutated_logs``; ``.ci/run sanitize`` runs 20,000 seeds of it."""

from __future__ import annotations

import pytest

from tests.native.mutated_logs import run


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_c_and_python_agree_on_mutated_logs(first: int) -> None:
    assert sum(run(seed, is_compared=True) for seed in range(first, first + 20)) > 500
