"""The comparison itself: it must not be able to pass by looking away."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support.environments.oracle import Environment, named
from tests.support.logs.ndjson import entry_json
from tests.support.logs.printlog import parse, parse_tail

from .compare import NotSaid, compare_entry
from .expected import expected_entry

# Between them they hold every type of entry that the fixtures have, and every dialect.
VARIED = (
    "je-3.3.98/cleaned",
    "je-7.5.11/schema-crash",
    "je-18.3.20/schema-crash",
    "je-18.3.20/erased",
    "je-18.3.20/rollback-four-periods",
    "je-25.3.17/ttl",
    "je-25.3.17/ha-rollback/node1",
)
WRONG: tuple[Any, ...] = ("wrong", None, [], 1 << 70)


@pytest.mark.parametrize("name", VARIED)
def test_every_value_that_is_changed_is_noticed(name: str) -> None:
    for expected, actual in one_of_each_type(named(name)):
        assert compare_entry(expected, actual) == []
        for path in leaves(expected, ()):
            unnoticed = [wrong for wrong in WRONG if not compare_entry(expected, changed(actual, path, wrong))]
            assert len(unnoticed) <= 2, (expected["lsn"], path, unnoticed)
            assert WRONG[0] not in unnoticed or None not in unnoticed, (expected["lsn"], path)


def test_an_attribute_that_nobody_takes_is_an_error() -> None:
    line = '<entry lsn="0x0/0x9" type="CkptStart/17" prev="0x0" size="1" cksum="2"><CkptStart invoker="api" '
    line += 'time="2026-11-20 11:09:37.935" id="3"{}/></entry>'
    assert expected_entry(ElementTree.fromstring(line.format("")))["time"] == "2026-11-20T11:09:37.935Z"
    with pytest.raises(AssertionError, match="nobody compares"):
        expected_entry(ElementTree.fromstring(line.format(' another="7"')))


def test_an_element_or_text_that_nobody_takes_is_an_error() -> None:
    line = '<entry lsn="0x0/0x9" type="ImmutableFile/17" prev="0x0" size="1" cksum="2"><Empty>{}</Empty>{}</entry>'
    assert expected_entry(ElementTree.fromstring(line.format("", "")))["type"] == "ImmutableFile"
    for inner, after in (("<a/>", ""), ("text", ""), ("", "<a/>")):
        with pytest.raises(AssertionError, match="nobody compares"):
            expected_entry(ElementTree.fromstring(line.format(inner, after)))


def test_a_key_may_carry_its_encoding_in_its_name() -> None:
    assert compare_entry({"key": "00ff"}, {"key_hex": "00ff"}) == []
    assert compare_entry({"key": "00ff"}, {"key_hex": "00fe"}) == ["key: JE says '00ff', we say '00fe'"]


def test_keys_can_be_left_out_by_name_only() -> None:
    assert compare_entry({"data": "00", "size": 1}, {"size": 1}, without={"data"}) == []
    assert compare_entry({"data": "00", "size": 1}, {"size": 1}) == ["data: JE says '00', we say None"]


def test_true_is_not_one() -> None:
    assert compare_entry({"is_root": True}, {"is_root": 1}) != []


def test_vlsn_in_the_start_tag_is_made_an_attribute() -> None:
    line = b'<DbPrintLog>\n<entry lsn="0x0/0x1" type="Matchpoint/17" <vlsn v="2,614"> isReplicated="1" prev="0x0" '
    line += b'size="8" cksum="9"><Matchpoint" time="2026-11-20 10:49:49.21" master="1"></entry>\n</DbPrintLog>\n'
    (element,) = parse(line)
    fields = expected_entry(element)
    assert (fields["vlsn"], fields["replicated"], fields["time"]) == (2614, True, "2026-11-20T10:49:49.210Z")


def test_a_tail_gives_only_whole_lines() -> None:
    whole = b'<entry lsn="0x0/0x1" type="ImmutableFile/17" prev="0x0" size="1" cksum="9"><Empty/></entry>'
    assert len(parse_tail(whole[:-3] + b"\n" + whole + b"\nUsage: java\n")) == 1


def one_of_each_type(environment: Environment) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The shortest entry of each type, as JE says it and as we do."""
    shortest: dict[int, Any] = {}
    for entry in environment.good_entries():
        best = shortest.get(entry.type_number)
        if best is None or entry.item_size < best.item_size:
            shortest[entry.type_number] = entry
    elements = {element.get("lsn"): element for element in environment.printed()}
    for entry in shortest.values():
        actual = entry_json(entry)
        yield expected_entry(elements[actual["lsn"]]), actual


def leaves(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Paths of all values that are compared."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, "summary" if key == "summary_derived" else key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))
    elif not isinstance(value, NotSaid):
        yield path


def changed(actual: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """A copy with one value replaced."""
    result = copy.deepcopy(actual)
    inner: Any = result
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return result
