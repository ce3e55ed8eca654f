"""Tables of printable ASCII are those that tabulate makes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetool.output.plain_table import is_plain, plain_table
from jetool.output.text import general_table

TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[str]], list[bool]]:
    columns = draw(st.integers(1, 5))
    headings = draw(st.lists(st.text("abc xyz", min_size=1, max_size=9), min_size=columns, max_size=columns))
    rows = draw(st.lists(st.lists(TEXTS, min_size=columns, max_size=columns), min_size=1, max_size=5))
    return headings, rows, draw(st.lists(st.booleans(), min_size=columns, max_size=columns))


@given(table=tables(), padding=st.sampled_from((0, 2)))
def test_as_tabulate(table: tuple[list[str], list[list[str]], list[bool]], padding: int) -> None:
    headings, rows, right = table
    assert is_plain(headings, rows)
    assert plain_table(headings, rows, right, padding) == general_table(headings, rows, right, padding)


@pytest.mark.parametrize("text", ["two\nlines", "\x1b[31mred\x1b[0m", "日本", "a\tb", "e\u0301"])
def test_others_are_for_tabulate(text: str) -> None:
    assert not is_plain(["name"], [["a"], [text]])
    assert not is_plain([text], [["a"]])
