"""Why recovery applies or ignores records: the five transactions of the diagram, and agreement with recovery."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.derby.explain import explain
from engine.derby.format import instant
from engine.derby.recovery.manager import recover
from tests.derby.derby_fixtures import NAMES, damaged_of, json_of, records_of, storage_of

FIVE = "crash-five-transactions"


def test_the_five_transactions() -> None:
    """Section C of the behaviour document, record by record."""
    found = {instant.show(one.record.instant): one for one in explain(storage_of(FIVE))}
    assert found["(1,40512)"].action == "unread"
    assert found["(1,41286)"].action == "bookkeeping"
    assert found["(1,40674)"].action == "bookkeeping"
    assert [found[at].action for at in ("(1,40710)", "(1,40777)")] == ["in front", "in front"]
    assert [found[at].action for at in ("(1,41924)", "(1,41991)")] == ["redo", "redo"]
    assert not found["(1,41924)"].undone
    assert found["(1,41725)"].action == "none"
    losers = [one for one in found.values() if one.record.transaction == 196 and one.undone]
    assert len(losers) == 9
    assert {one.action for one in losers} == {"in front", "redo"}


def test_records_after_the_end() -> None:
    case = next(c for c in json_of(FIVE, "damage.json")["cases"] if c["damage"].startswith("one byte changed"))
    found = {instant.show(one.record.instant): one for one in explain(damaged_of(FIVE, case))}
    assert found["(1,42251)"].action == "after-end"
    assert "(1,41854)" in found["(1,42251)"].reason
    assert found["(1,41725)"].action == "none"


@pytest.mark.parametrize("name", NAMES)
def test_explanation_agrees_with_recovery(name: str) -> None:
    storage = storage_of(name)
    before = storage.contents()
    found = list(explain(storage))
    assert storage.contents() == before
    assert [one.record for one in found] == records_of(name)
    counts = Counter(one.action for one in found)
    result = recover(storage)
    assert counts["redo"] == result.redo_applied
    assert counts["skip"] == result.redo_skipped
    assert sum(one.undone for one in found) == sum(one.clrs for one in result.undone)
