"""An environment that JE 18.3.20 wrote with secondaries, sequences and comparators, opened and gone on with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.db.secondary import DeleteConstraintError, ForeignConstraintError, ForeignKeyDelete
from engine.db.secondary_cursor import SecondaryRecord, join
from engine.db.sequence import SequenceConfig
from engine.log.files import list_log_files
from engine.storage.memory import MemoryStorage
from engine.tree.comparators import DescendingKey
from engine.verify.environment import verify_environment
from engine.verify.secondary import check_secondary
from tests.support.environments.people import OF_CITY, People

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "je-17" / "indexed"
CONFIG = EnvironmentConfig(comparators={"Falling": DescendingKey, "First": lambda stored: stored[:1]})
# Key and data in the order of JE's cursor over the database of the class Falling.
IN_ORDER_OF_JE = (
    "92=1x14 89=3x3 84=4x17 81=6x6 73=9x9 65=12x12 62=1x1 57=2x15 54=4x4 49=5x18 46=7x7 38=10x10 30=0x13 3=11x11 "
    "27=2x2 22=3x16 19=5x5 14=6x19 11=8x8 0=0x0"
)


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage({"00000000.jdb": (GOLDEN / "00000000.jdb").read_bytes()})


@pytest.fixture
def people(storage: MemoryStorage) -> People:
    return People(Environment(storage, CONFIG))


def test_its_secondaries_agree(people: People) -> None:
    assert people.disagreements() == []
    assert [(found.key, found.primary_key) for found in people.by_city] == [
        (b"Oslo", b"01"), (b"Oslo", b"07"), (b"Rome", b"02"),
    ]  # fmt: skip
    assert people.by_mail.get(b"bob@example") == SecondaryRecord(b"bob@example", b"07", b"Oslo|bob@example|")
    with people.by_city.cursor() as oslo, people.by_tag.cursor() as red:
        oslo.search(b"Oslo")
        red.search(b"red")
        assert list(join([oslo, red])) == [(b"01", b"Oslo|ada@example|red,blue")]
    for name in ("people.city", "people.mail", "people.tags"):
        assert check_secondary(people.env, name, "people").findings == ()


def test_it_can_be_gone_on_with(people: People, storage: MemoryStorage) -> None:
    people.by_city.close()
    config = replace(OF_CITY, foreign_key_database=people.cities, on_foreign_delete=ForeignKeyDelete.ABORT)
    people.by_city = people.open("people.city", config)
    with pytest.raises(ForeignConstraintError):
        people.db.put(b"20", b"Paris||")
    with pytest.raises(DeleteConstraintError):
        people.cities.delete(b"Oslo")
    people.db.put(b"01", b"Rome||")
    assert people.by_tag.delete(b"red") == 1
    assert people.disagreements() == []
    people.close()
    people.env.close()
    report = verify_environment(storage, list_log_files(storage), ("log", "data"), comparators=CONFIG.comparators)
    assert [finding.message for finding in report.findings] == []


def test_its_sequences_go_on(people: People) -> None:
    with people.env.open_database("db") as db:
        # JE had taken ten and given out three of them.
        ascending = db.sequence(b"ids", SequenceConfig(cache_size=5))
        assert [ascending.next(), ascending.next(4), ascending.next(7)] == [11, 12, 16]
        assert db.sequence(b"down").next(3) == -3
        assert not db.sequence(b"down").state.ascends


def test_its_orders(people: People) -> None:
    for name in ("plain", "dups"):
        with people.env.open_database(name) as db:
            assert [f"{key.decode()}={data.decode()}" for key, data in db] == IN_ORDER_OF_JE.split()
            db.put(b"85", b"new")
            assert db.get(b"85") == b"new"
            assert [key for key, _ in db][2] == b"85"
    with people.env.open_database("dups") as db, db.cursor() as cursor:
        cursor.search(b"92")
        # Of the comparator of data items only the first byte counts.
        cursor.put_current(b"1 of here")
        assert next(iter(db)) == (b"92", b"1 of here")
