"""A sample of the drill ``tests.native.mutated_logs``; ``.ci/run sanitize`` runs 20,000 seeds of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.native.mutated_logs import run
from tests.support.damage.mutations import mutation
from tests.support.native_core import native_core


@pytest.fixture(autouse=True)
def maps() -> Iterator[None]:
    """As in the drill: two maps of a file may hold all of it."""
    core = native_core()
    before = core.most_bytes()
    core.keep_at_most(64 << 20)
    yield
    core.keep_at_most(before)


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_c_and_python_agree_on_mutated_logs(first: int) -> None:
    assert sum(run(seed, is_compared=True) for seed in range(first, first + 20)) > 500


def test_a_base_file_at_the_end_of_its_range() -> None:
    """The drill found that LSNs of such a node had 65 bits in Python, and 64 in C and in compiled Python."""
    assert "base_file of the entry at 0000000d.jdb 0x3d21 is 2147483647" in mutation(17430).what
    assert run(17430, is_compared=True) > 100
