"""Every entry of every fixture environment against DbPrintLog: header and body, by value."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.environments.oracle import Environment, environments
from tests.support.logs.ndjson import entry_json
from tests.support.samples import part

from .compare import compare_entry
from .expected import expected_entry, expected_header

_MOST_SHOWN = 20


@pytest.mark.parametrize("environment", part(environments()))
def test_every_entry_is_what_je_prints(environment: Environment) -> None:
    by_lsn = {entry["lsn"]: entry for entry in map(entry_json, environment.good_entries())}
    rows = [expected_header(row) for row in environment.header_rows()]
    assert list(by_lsn) == [row["lsn"] for row in rows]
    problems = []
    for row in rows:
        problems += differences(row, by_lsn)
    elements = environment.printed()
    assert len(elements) == len(rows) or not environment.is_printed_whole
    for element in elements:
        problems += differences(expected_entry(element), by_lsn)
    assert not problems, "\n".join(problems[:_MOST_SHOWN]) + f"\n{len(problems)} differences"


def differences(expected: dict[str, Any], by_lsn: dict[str, dict[str, Any]]) -> list[str]:
    """What differs, with the entry's place and type before it."""
    where = f"{expected['lsn']} {expected['type']}/{expected['version']}"
    return [f"{where} {difference}" for difference in compare_entry(expected, by_lsn[expected["lsn"]])]
