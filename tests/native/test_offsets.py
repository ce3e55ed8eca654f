"""Obsolete offsets are the same in C as in Python."""

from __future__ import annotations

from itertools import accumulate
from struct import pack
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from engine.errors import FormatError
from engine.format.entry.ln_content import unpacked_offsets, unpacked_offsets_plain
from tests.support.native_core import native_core

if TYPE_CHECKING:
    from engine.native import core
else:
    core = native_core()


def by_twin(count: int, raw: bytes) -> tuple[int, ...] | None:
    try:
        return unpacked_offsets_plain(count, raw)
    except FormatError:
        return None


def encoded(differences: list[int]) -> bytes:
    groups = []
    for difference in differences:
        rest = difference
        while rest >> 15:
            groups.append(-1 - (rest & 0x7FFF))
            rest >>= 15
        groups.append(rest)
    return pack(f"<{len(groups)}h", *groups)


@given(st.lists(st.integers(0, 1 << 33), max_size=8), st.sampled_from((0, 0, 0, 1, -1)), st.sampled_from((0, 0, 2, 4)))
def test_both_read_the_same(differences: list[int], wrong: int, cut: int) -> None:
    raw = encoded(differences)
    raw = raw[: max(len(raw) - cut, 0)]
    count = len(differences) + wrong
    assert core.unpacked_offsets(count, raw) == by_twin(count, raw)
    if not wrong and not cut:
        assert core.unpacked_offsets(count, raw) == unpacked_offsets(count, raw) == tuple(accumulate(differences))


@given(st.lists(st.binary(min_size=2, max_size=2), max_size=12), st.integers(-1, 12))
def test_c_reads_nothing_that_python_refuses(groups: list[bytes], count: int) -> None:
    raw = b"".join(groups)
    found = core.unpacked_offsets(count, raw)
    assert found is None or found == unpacked_offsets_plain(count, raw)
