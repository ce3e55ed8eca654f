"""Every worked example and scenario that the engine has to show is shown by a test; the table says by which."""

from __future__ import annotations

from tests.scenarios.table import REQUIRED, lost, markdown, table


def test_nothing_is_missing() -> None:
    assert [name for name, tests in table().items() if not tests] == []


def test_tests_that_are_named_are_there() -> None:
    assert lost() == []


def test_the_table_names_them_all() -> None:
    text = markdown()
    assert all(f"| {name} | " in text for name in REQUIRED)
    assert len(REQUIRED) == 99
