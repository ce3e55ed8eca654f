"""The checker of the drill of groups sees each promise that a group can break."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from engine.log.entry import LogEntry
from engine.storage.memory import MemoryStorage
from tests.rep.group_drill import DATABASE, BrokenPromiseError, Outcomes, Receipt, check
from tests.support.groups.streams import open_alone, visible_stream

_KEYS = (b"n0-000001", b"n1-000001", b"n0-000002")


class Rest(NamedTuple):
    """A group of three nodes at rest."""

    outcomes: Outcomes
    streams: list[dict[int, LogEntry]]
    records: list[dict[bytes, bytes]]


@pytest.fixture
def rest() -> Rest:
    """Three commits, one after the other, which all nodes have."""
    storage, outcomes = MemoryStorage(), Outcomes()
    with open_alone(storage) as env, env.create_database(DATABASE) as db:
        for number, key in enumerate(_KEYS):
            db.put(key, b"v")
            assert env.engine.vlsn_index is not None
            vlsn = env.engine.vlsn_index.range.last
            outcomes.acknowledged[key] = Receipt(vlsn, "10.77.0.1", number, number + 0.5)
    outcomes.refused[b"n2-000001"] = "too few replicas"
    stream = visible_stream(storage)
    return Rest(outcomes, [dict(stream) for _ in range(3)], [dict.fromkeys(_KEYS, b"v") for _ in range(3)])


def _lose(rest: Rest) -> None:
    for records in rest.records:
        del records[_KEYS[1]]


def _differ(rest: Rest) -> None:
    rest.records[2][_KEYS[0]] = b"w"


def _fall_short(rest: Rest) -> None:
    del rest.streams[1][max(rest.streams[1])]


def _keep_refused(rest: Rest) -> None:
    for records in rest.records:
        records[b"n2-000001"] = b"v"


def _invent(rest: Rest) -> None:
    for records in rest.records:
        records[b"n9-000001"] = b"v"


def _commit_twice(rest: Rest) -> None:
    receipts = rest.outcomes.acknowledged
    receipts[_KEYS[2]] = receipts[_KEYS[2]]._replace(vlsn=receipts[_KEYS[1]].vlsn, master="10.77.0.2")


def _name_another_entry(rest: Rest) -> None:
    receipts = rest.outcomes.acknowledged
    receipts[_KEYS[0]] = receipts[_KEYS[0]]._replace(vlsn=receipts[_KEYS[0]].vlsn - 1)


def _go_backward(rest: Rest) -> None:
    receipts = rest.outcomes.acknowledged
    first, last = receipts[_KEYS[0]], receipts[_KEYS[2]]
    receipts[_KEYS[0]], receipts[_KEYS[2]] = first._replace(vlsn=last.vlsn), last._replace(vlsn=first.vlsn)


def test_a_group_that_keeps_its_promises(rest: Rest) -> None:
    check(*rest)


def test_an_unknown_outcome_may_be_either(rest: Rest) -> None:
    rest.outcomes.unknown[b"n2-000002"] = "no answer"
    check(*rest)
    for records in rest.records:
        records[b"n2-000002"] = b"v"
    check(*rest)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_lose, "has lost b'n1-000001'"),
        (_differ, "n2 holds other records than n0"),
        (_fall_short, "n1 has another stream than n0"),
        (_keep_refused, "whose put was refused: too few replicas"),
        (_invent, "which was never put"),
        (_commit_twice, "2 commits were acknowledged as VLSN"),
        (_name_another_entry, "has no Commit of b'n0-000001' at VLSN"),
        (_go_backward, "was answered"),
    ],
)
def test_a_group_that_breaks_one(rest: Rest, spoil: Callable[[Rest], None], said: str) -> None:
    spoil(rest)
    with pytest.raises(BrokenPromiseError, match=said):
        check(*rest)
