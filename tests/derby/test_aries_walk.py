"""The walk through the whole log, past damage, and the fates of transactions."""

from __future__ import annotations

import pytest

from engine.derby.database import DerbyDatabase
from engine.derby.format import instant
from engine.derby.format.record import Record
from engine.derby.log import DerbyLogFiles
from engine.derby.log_walk import DerbyDamage, RecordSelection, walk
from engine.derby.recovery.manager import recover
from engine.derby.xact_fates import fates
from engine.storage.memory import MemoryStorage
from tests.derby.derby_fixtures import NAMES, damaged_of, files_of, json_of, records_of, storage_of

FIVE = "crash-five-transactions"


def log_of(storage: MemoryStorage) -> DerbyLogFiles:
    return DerbyLogFiles(DerbyDatabase(storage))


@pytest.mark.parametrize("name", NAMES)
def test_walk_of_an_undamaged_log_is_the_scan(name: str) -> None:
    assert list(walk(log_of(storage_of(name)))) == records_of(name)


def test_selection_by_every_kind() -> None:
    log = log_of(storage_of("crash-mixed"))
    everything = records_of("crash-mixed")

    def chosen(selection: RecordSelection) -> list[Record]:
        found = list(walk(log, selection))
        assert all(isinstance(one, Record) for one in found)
        return [one for one in found if isinstance(one, Record)]

    mine = chosen(RecordSelection(transactions=frozenset((207, 251))))
    assert mine == [one for one in everything if one.transaction in (207, 251)]
    on_page = chosen(RecordSelection(containers=frozenset((1201,)), pages=frozenset((7,))))
    assert {getattr(one.operation, "page", None) for one in on_page} == {7}
    both = chosen(RecordSelection(operations=frozenset(("checkpoint", "containerundo"))))
    assert [instant.show(one.instant) for one in both] == ["(1,76900)"]
    start, stop = instant.parse("1,77043"), instant.parse("1,77600")
    part = chosen(RecordSelection(start=start, stop=stop))
    assert part == [one for one in everything if start <= one.instant < stop]
    assert part
    assert chosen(RecordSelection(files=frozenset((2,)))) == []


def test_walk_goes_on_behind_damage() -> None:
    case = next(c for c in json_of(FIVE, "damage.json")["cases"] if c["damage"].startswith("one byte changed"))
    found = list(walk(log_of(damaged_of(FIVE, case))))
    damage = [one for one in found if isinstance(one, DerbyDamage)]
    assert [(instant.show(one.at), one.skipped_bytes) for one in damage] == [("(1,41854)", 0), ("(1,41891)", 33)]
    assert instant.show(damage[1].resumed_at) == "(1,41924)"
    records = [one for one in found if isinstance(one, Record)]
    assert len(records) == len(records_of(FIVE)) - 1


def test_walk_names_bytes_that_lead_nowhere() -> None:
    files = dict(files_of(FIVE))
    log = bytearray(files["log/log1.dat"])
    log[43_000:43_007] = b"garbage"
    found = list(walk(log_of(MemoryStorage({**files, "log/log1.dat": bytes(log)}))))
    assert isinstance(found[-1], DerbyDamage)
    assert found[-1].resumed_at == instant.NONE
    assert found[-1].reason == "zeros where a record should be"
    short = MemoryStorage({**files, "log/log2.dat": b"\0\0\0\x80"})
    last = list(walk(log_of(short)))[-1]
    assert isinstance(last, DerbyDamage)
    assert "shorter than its header" in last.reason


def test_fates_of_the_five_transactions() -> None:
    """Section C of the behaviour document."""
    found = {one.number: one for one in fates(records_of(FIVE))}
    assert [found[n].outcome for n in (193, 194, 195, 196, 198)] == ["committed"] * 3 + ["open", "committed"]
    assert instant.show(found[194].first) == "(1,40674)"
    assert instant.show(found[194].last) == "(1,42251)"
    assert (found[196].records, found[196].compensations) == (10, 0)
    assert found[198].internal
    storage = storage_of(FIVE)
    recover(storage)
    after = {one.number: one for one in fates(one for one in walk(log_of(storage)) if isinstance(one, Record))}
    assert (after[196].outcome, after[196].compensations) == ("aborted", 9)


def test_fates_of_prepared_transactions() -> None:
    found = {one.number: one for one in fates(records_of("crash-xa-prepared"))}
    assert [found[n].outcome for n in (186, 190, 194, 198)] == ["prepared", "committed", "prepared", "open"]
    assert found[186].global_id is not None


@pytest.mark.parametrize("name", NAMES)
def test_every_record_belongs_to_one_fate(name: str) -> None:
    everything = records_of(name)
    found = fates(everything)
    assert sum(one.records for one in found) == sum(1 for one in everything if one.transaction is not None)
    opened = {int(number) for number in json_of(name, "manifest.json")["open_at_end"]}
    assert {one.number for one in found if one.outcome in ("open", "prepared")} == opened
