"""Sizes that JE derives from a file's counters (R-CLN-2 to 4)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.format.entry.ln_content import FileSummary

I32 = st.integers(-(1 << 31), (1 << 31) - 1)


def test_sizes_that_18_3_20_printed() -> None:
    # je-3.3.98/cleaned at 0x9/0x1413, printed by DbPrintLog of JE 18.3.20.
    summary = FileSummary(225, 19908, 16, 1620, 181, 15770, 0, 14, 63, 5133, 63)
    assert summary.estimated_obsolete_in_size == 1417
    assert summary.estimated_obsolete_ln_size == summary.most_obsolete_ln_size == 5133
    assert summary.estimated_obsolete_size == summary.most_obsolete_size == 9068
    assert summary.average_uncounted_ln_size is None
    assert summary.utilization == 54


def test_uncounted_lns_take_the_average_or_at_most_the_largest() -> None:
    summary = FileSummary(10, 1000, 0, 0, 10, 1000, 150, 0, 4, 200, 2)
    assert summary.average_uncounted_ln_size == 100.0
    assert summary.estimated_obsolete_ln_size == 200 + 2 * 100
    assert summary.most_obsolete_ln_size == 200 + 2 * 150
    # Six LNs are needed, of 18 bytes each at least: no more than that is left for the others.
    assert summary._replace(max_ln_size=600).most_obsolete_ln_size == 1000 - 6 * 18


def test_utilization_is_rounded_half_up_and_an_empty_file_has_none() -> None:
    assert FileSummary(8, 1000, 0, 0, 8, 1000, 0, 0, 1, 125, 1).utilization == 88
    assert FileSummary(*[0] * 11).utilization == 0


@given(st.tuples(*[I32] * 11))
def test_any_counters_give_numbers(counters: tuple[int, ...]) -> None:
    summary = FileSummary(*counters)
    assert summary.estimated_obsolete_size <= max(summary.total_size, 0)
    assert summary.most_obsolete_size <= max(summary.total_size, 0)
    assert isinstance(summary.utilization, int)
