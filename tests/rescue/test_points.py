"""Points of a log: where the log ends for them, and that the log of then is what the model says."""

from __future__ import annotations

import random
from functools import cache

import pytest

from engine.errors import NotFoundError, RefusedError
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import COMMIT, TXN_ENDS
from engine.log.files import list_log_files
from engine.log.scan import LogScan
from engine.rescue.points import COMMITS, LSN, MATCHPOINT, TIME, TXN, VLSN, Cut, Point, as_of, find_cut
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from tests.support.environments.models import Modelled, entries_of, state_of
from tests.support.environments.oracle import named
from tests.support.logs.decoded import record_of


@cache
def modelled(seed: int) -> Modelled:
    return Modelled(seed)


def cut_at(storage: Storage, kind: str, value: int) -> Cut:
    return find_cut(storage, list_log_files(storage), Point(kind, value, f"{kind}:{value}"))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_log_of_then_is_what_the_model_says(seed: int) -> None:
    made = modelled(seed)
    storage = made.storage()
    first = made.marks[3][0]
    chosen = [entry for entry in entries_of(storage) if entry.lsn > first]
    for entry in random.Random(seed).sample(chosen, 25):
        cut = cut_at(storage, LSN, entry.lsn)
        assert cut.end_lsn <= entry.lsn
        assert state_of(as_of(storage, cut.end_lsn)) == made.at(entry.lsn)


@pytest.mark.parametrize("name", ["modelled", "ha-rollback/node1", "txn-crash", "corrupt-middle"])
def test_stretches_of_entries_say_what_entries_say(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    storage: Storage = modelled(1).storage()
    if name != "modelled":
        storage = DiskStorage(named(f"je-18.3.20/{name}").path / "env")
    entries = entries_of(storage)
    ends = [record_of(entry, TxnEnd) for entry in entries if entry.type_number in TXN_ENDS]
    points = [(LSN, entries[at * len(entries) // 7].lsn + (at % 3 == 2)) for at in range(7)] + [(MATCHPOINT, 0)]
    points += [(COMMITS, at * len(ends) // 3 + 1) for at in range(3)]
    points += [point for end in ends[:: len(ends) // 4 or 1] for point in ((TIME, end.time), (TXN, end.id))]

    def cuts() -> list[Cut | str]:
        found: list[Cut | str] = []
        for kind, value in points:
            try:
                found.append(cut_at(storage, kind, value))
            except (NotFoundError, RefusedError) as error:
                found.append(f"{error}: {error.found} {error.hint}")
        return found

    fast = cuts()
    monkeypatch.setattr(LogScan, "stretches", LogScan.entries)
    assert cuts() == fast


def test_the_end_of_the_log_is_a_point() -> None:
    made = modelled(1)
    storage = made.storage()
    end = cut_at(storage, LSN, entries_of(storage)[-1].lsn).log_end_lsn
    found = cut_at(storage, LSN, end)
    assert found.end_lsn == end
    assert not found.snapped


def test_between_two_entries_both_are_named() -> None:
    storage = modelled(1).storage()
    entries = entries_of(storage)
    with pytest.raises(NotFoundError) as caught:
        cut_at(storage, LSN, entries[40].lsn + 1)
    assert f"{entries[40].lsn >> 32:#x}/{entries[40].lsn & 0xFFFFFFFF:#x}" in str(caught.value.hint)
    assert f"{entries[41].lsn >> 32:#x}/{entries[41].lsn & 0xFFFFFFFF:#x}" in str(caught.value.hint)
    with pytest.raises(NotFoundError):
        cut_at(storage, LSN, entries[-1].lsn + 1_000_000)


def test_commits_from_the_end() -> None:
    storage = modelled(2).storage()
    commits = [entry for entry in entries_of(storage) if entry.type_number == COMMIT]
    for count in (1, 2, 7):
        cut = cut_at(storage, COMMITS, count)
        left = [entry for entry in entries_of(as_of(storage, cut.end_lsn)) if entry.type_number == COMMIT]
        assert len(left) == len(commits) - count
    with pytest.raises(NotFoundError):
        cut_at(storage, COMMITS, len(commits) + 1)


def test_a_transaction_is_the_last_that_stays() -> None:
    storage = modelled(3).storage()
    ends = [entry for entry in entries_of(storage) if entry.type_number in TXN_ENDS]
    for entry in ends[5::17]:
        record = entry.record()
        assert isinstance(record, TxnEnd)
        cut = cut_at(storage, TXN, record.id)
        assert cut.end_lsn == entry.lsn + entry.total_bytes
    with pytest.raises(NotFoundError):
        cut_at(storage, TXN, 1 << 40)


def test_a_time_is_before_the_first_end_after_it() -> None:
    storage = DiskStorage(named("je-18.3.20/txn-crash").path / "env")
    ends = [entry for entry in entries_of(storage) if entry.type_number in TXN_ENDS]
    times = [record_of(entry, TxnEnd).time for entry in ends]
    middle = times[len(times) // 2]
    cut = cut_at(storage, TIME, middle)
    left = [entry for entry in entries_of(as_of(storage, cut.end_lsn)) if entry.type_number in TXN_ENDS]
    assert len(left) == next(at for at, time in enumerate(times) if time > middle)
    with pytest.raises(RefusedError):
        cut_at(storage, TIME, 1)


def test_a_vlsn_is_the_last_that_stays_or_the_end_before_it() -> None:
    storage = DiskStorage(named("je-18.3.20/ha-group/node1").path / "env")
    for vlsn in (50, 150, 268):
        cut = cut_at(storage, VLSN, vlsn)
        left = [entry for entry in entries_of(as_of(storage, cut.end_lsn)) if entry.replicated]
        assert left[-1].vlsn <= vlsn
        later = [entry for entry in entries_of(storage) if left[-1].vlsn < entry.vlsn <= vlsn]
        # What was left out belongs to transactions that VLSN leaves open.
        assert all(entry.type_number not in TXN_ENDS for entry in later)
    with pytest.raises(NotFoundError):
        cut_at(storage, VLSN, 100_000)


@pytest.mark.parametrize(
    "name", ["ha-rollback/node1", "rollback-four-periods", "rollback-overlap", "rollback-straddle"]
)
def test_no_rollback_is_torn(name: str) -> None:
    path = named(f"je-18.3.20/{name}").path / "env"
    storage = DiskStorage(path)
    entries = entries_of(storage)
    checked = 0
    for entry in entries[len(entries) // 3 :: 4]:
        cut = cut_at(storage, LSN, entry.lsn)
        left = entries_of(as_of(storage, cut.end_lsn))
        # An invisible entry without its rollback would be a hole in the stream.
        if any(one.invisible for one in left):
            assert any(one.type_name == "RollbackEnd" for one in left)
        state_of(as_of(storage, cut.end_lsn))
        checked += 1
    assert checked > 10


def test_the_last_matchpoint() -> None:
    storage = DiskStorage(named("je-18.3.20/ha-rollback/node1").path / "env")
    cut = cut_at(storage, MATCHPOINT, 0)
    assert not any(entry.invisible for entry in entries_of(as_of(storage, cut.end_lsn)))
    assert any(entry.invisible for entry in entries_of(storage))
    with pytest.raises(NotFoundError):
        cut_at(modelled(1).storage(), MATCHPOINT, 0)
