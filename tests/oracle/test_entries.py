"""Every entry of every fixture environment against DbPrintLog (issue 2, acceptance 1): header and body, by value."""

from __future__ import annotations

from itertools import takewhile
from typing import Any
from xml.etree.ElementTree import Element

import pytest

from engine.log.entry import Damage, LogEntry

from .compare import compare_entry
from .environments import Environment, environments, require
from .expected import expected_entry, expected_header
from .ndjson import entry_json
from .printlog import parse, parse_tail

_MOST_SHOWN = 20


@pytest.mark.parametrize("environment", environments())
def test_every_entry_is_what_je_prints(environment: Environment | None) -> None:
    environment = require(environment)
    by_lsn = {entry["lsn"]: entry for entry in map(entry_json, good_entries(environment))}
    rows = [expected_header(row) for row in environment.header_rows()]
    assert list(by_lsn) == [row["lsn"] for row in rows]
    problems = []
    for row in rows:
        problems += differences(row, by_lsn)
    for element in printed(environment, len(rows)):
        problems += differences(expected_entry(element), by_lsn)
    assert not problems, "\n".join(problems[:_MOST_SHOWN]) + f"\n{len(problems)} differences"


def good_entries(environment: Environment) -> list[LogEntry]:
    """Entries up to the first damage, where JE stops."""
    found = takewhile(lambda item: not isinstance(item, Damage), environment.read())
    return [item for item in found if isinstance(item, LogEntry)]


def printed(environment: Environment, count: int) -> list[Element]:
    """The elements that JE printed: all, or for damaged copies those of which the tail has the whole line."""
    output = environment.printlog()
    if output is None:
        return parse_tail(environment.expected("printlog-tail.txt"))
    elements = parse(output)
    assert len(elements) == count
    return elements


def differences(expected: dict[str, Any], by_lsn: dict[str, dict[str, Any]]) -> list[str]:
    """What differs, with the entry's place and type before it."""
    where = f"{expected['lsn']} {expected['type']}/{expected['version']}"
    return [f"{where} {difference}" for difference in compare_entry(expected, by_lsn[expected["lsn"]])]
