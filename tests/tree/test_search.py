"""The search that is C finds what ``bisect`` finds, among keys in order and in none."""

from __future__ import annotations

import importlib
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools import needs

if TYPE_CHECKING:
    from engine.tree import search
else:
    needs("native build")
    search = importlib.import_module("engine.tree.search")

KEY = st.binary(max_size=4)
ASCENDING = st.sets(KEY, max_size=40).map(sorted)
KEYS = st.one_of(ASCENDING, st.lists(KEY, max_size=40))


@given(keys=KEYS, key=KEY)
def test_a_key_is_found_where_bisect_finds_it(keys: list[bytes], key: bytes) -> None:
    index = bisect_left(keys, key)
    exact = index < len(keys) and keys[index] == key
    assert search.find(keys, key) == (index if exact else ~index)


@given(keys=KEYS, key=KEY)
def test_a_child_is_found_where_bisect_finds_it(keys: list[bytes], key: bytes) -> None:
    assert search.covering(keys, key) == bisect_right(keys, key, 1) - 1


@given(keys=KEYS, first=st.integers(0, 3))
def test_order_is_what_comparing_neighbours_says(keys: list[bytes], first: int) -> None:
    assert search.ascends(keys, first) is all(keys[at - 1] < keys[at] for at in range(first + 1, len(keys)))


def test_what_is_not_bytes_is_left_to_bisect() -> None:
    assert search.find([b"a", ("b",), b"c"], b"b") is None
    assert search.find([b"a"], ("a", "b")) is None
    assert search.find([], bytearray(b"a")) is None
    assert search.covering([b"a", 7], b"b") is None
    assert search.ascends([b"a", 7], 0) is None
    assert search.ascends([b"a"], -1) is None
    for keys in (1, (b"a",)):
        with pytest.raises(TypeError, match="takes a list"):
            search.find(keys, b"a")  # type: ignore[arg-type]
