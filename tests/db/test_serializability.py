"""Random serializable transactions leave a strictly serializable history; the checker knows each anomaly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from engine.storage.memory import MemoryStorage
from tests.db.serializability import Committed, Run, Seen, check, problems_of


def ran(number: int, reads: Mapping[int, int], began: float = 0, ended: float = 9) -> Committed:
    """A transaction, at the same time as all others unless said otherwise."""
    return Committed(
        number, frozenset(Seen(key, version) for key, version in reads.items()), began, ended + number / 100
    )


Lists = Mapping[int, Sequence[int]]


@pytest.mark.parametrize(
    ("history", "lists", "word"),
    [
        # Each reads what the other one writes.
        pytest.param([ran(1, {0: 0, 1: 0}), ran(2, {0: 0, 1: 0})], {0: [1], 1: [2]}, "circle", id="write skew"),
        pytest.param([ran(1, {0: 0}), ran(2, {0: 0})], {0: [1, 2]}, "circle", id="lost update"),
        # Key 1 did not exist for the one that saw what the same transaction wrote into key 0.
        pytest.param([ran(1, {}), ran(2, {0: 1, 1: 0})], {0: [1], 1: [1]}, "circle", id="phantom"),
        pytest.param([ran(2, {0: 1})], {0: [1]}, "did not commit", id="aborted read"),
        pytest.param([ran(1, {}), ran(2, {0: 2})], {0: [1]}, "is gone", id="lost append"),
        pytest.param([ran(1, {}, 0, 1), ran(2, {0: 0}, 2, 3)], {0: [1]}, "circle", id="stale read"),
    ],
)
def test_an_anomaly_is_found(history: list[Committed], lists: Lists, word: str) -> None:
    assert word in " ".join(problems_of(history, lists))


@pytest.mark.parametrize(
    ("history", "lists"),
    [
        pytest.param([ran(1, {0: 0}), ran(2, {0: 1})], {0: [1, 2]}, id="one after the other"),
        pytest.param([ran(1, {0: 0}, 0, 5), ran(2, {0: 0}, 1, 2)], {0: [1]}, id="a read of the past at the same time"),
        pytest.param([ran(1, {0: 0, 1: 0}), ran(2, {1: 0})], {0: [1], 1: [2]}, id="one order of two"),
    ],
)
def test_a_sound_history(history: list[Committed], lists: Lists) -> None:
    assert problems_of(history, lists) == []


def test_serializable_transactions() -> None:
    run = Run(MemoryStorage())
    run.work(6, 1)
    assert check(run) == []
    assert run.done["commits"] > 50
    assert run.done["victims"] > 0


@pytest.mark.slow
def test_serializable_transactions_for_a_minute() -> None:
    run = Run(MemoryStorage())
    run.work(8, 60)
    assert check(run) == []
