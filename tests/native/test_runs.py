"""Sorted runs are merged in C as their twin merges them, and never beyond the bound."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.recovery.redo_batch import merged_plain
from tests.support.native_core import native_core

if TYPE_CHECKING:
    from engine.native import core
else:
    core = native_core()

NUMBER = st.integers(-(1 << 63), (1 << 63) - 1)
# Keys with much in common, beyond the eight bytes that are compared as a number, and keys of any bytes.
KEY = st.one_of(
    st.binary(max_size=12),
    st.builds(
        lambda head, tail: b"account-" * head + tail, st.integers(0, 2), st.text("\0\1z", max_size=4).map(str.encode)
    ),
)
RUN = st.lists(st.tuples(KEY, NUMBER, NUMBER), max_size=30).map(lambda rows: sorted(rows, key=lambda row: row[0]))
Columns = tuple[list[Any], "array[int]", "array[int]"]


def columns_of(rows: list[tuple[bytes, int, int]]) -> Columns:
    return [row[0] for row in rows], array("q", [row[1] for row in rows]), array("q", [row[2] for row in rows])


@given(runs=st.lists(RUN, max_size=6), bounds=st.lists(KEY, min_size=1, max_size=4), data=st.data())
def test_runs_are_merged_as_the_twin_merges_them(runs: list[Any], bounds: list[bytes], data: st.DataObject) -> None:
    columns = [columns_of(rows) for rows in runs]
    places = array("q", [data.draw(st.integers(0, len(rows))) for rows in runs])
    of_twin = array("q", places)
    for bound in bounds:
        assert core.merged_rows(columns, places, bound) == merged_plain(columns, of_twin, bound)
        assert places == of_twin


def test_rows_of_one_key_come_in_the_order_of_their_runs() -> None:
    columns = [columns_of([(b"k", 10 * run + row, 30) for row in range(3)]) for run in range(20)]
    rows = core.merged_rows(columns, array("q", [0] * 20), b"k")
    assert rows is not None
    assert [row[1] for row in rows] == [10 * run + row for run in range(20) for row in range(3)]


def test_what_is_not_bytes_is_left_to_the_twin() -> None:
    columns: list[Columns] = [columns_of([(b"a", 1, 2), (b"c", 3, 4)]), columns_of([(b"b", 5, 6)])]
    columns[0][0][1] = "c"
    places = array("q", [0, 0])
    assert core.merged_rows(columns, places, b"c") is None
    columns[0][0][:] = [7, b"c"]
    assert core.merged_rows(columns, places, b"c") is None
    columns[0][0][:] = [b"a", b"c"]
    assert core.merged_rows(columns, places, ("c",)) is None
    assert list(places) == [0, 0]
    # The bound comes before the key that is not bytes.
    columns[0][0][:] = [b"a", b"b", b"b"]
    longer = [(columns[0][0], array("q", [1, 2, 3]), array("q", [1, 2, 3]))]
    assert core.merged_rows(longer, array("q", [0]), b"a") == [(b"a", 1, 1, None)]


def test_columns_that_do_not_fit_together_are_refused() -> None:
    fitting = columns_of([(b"a", 1, 2)])
    wrong: list[tuple[Any, list[int], str]] = [
        ([fitting], [], "each run has a place"),
        ([fitting], [2], "its place is in them"),
        ([fitting], [-1], "its place is in them"),
        ([(fitting[0], array("q"), fitting[2])], [0], "equally long"),
        ([(fitting[0], fitting[1], array("q", [1, 2]))], [0], "equally long"),
    ]
    for columns, places, message in wrong:
        with pytest.raises(ValueError, match=message):
            core.merged_rows(columns, array("q", places), b"z")
    for bad in ((b"a", fitting[1], fitting[2]), [fitting[0], fitting[1], fitting[2]], (fitting[0],)):
        with pytest.raises(TypeError):
            core.merged_rows([bad], array("q", [0]), b"z")  # type: ignore[list-item]
    with pytest.raises(TypeError):
        core.merged_rows([(fitting[0], 7, fitting[2])], array("q", [0]), b"z")  # type: ignore[list-item]
