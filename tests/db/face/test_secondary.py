"""Secondaries: key creators, foreign keys, cursors, joins, and what they leave when something is refused."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import Environment
from engine.db.secondary import (
    DeleteConstraintError,
    ForeignConstraintError,
    ForeignKeyDelete,
    Nullifier,
    SecondaryConfig,
    UniqueConstraintError,
)
from engine.db.secondary_cursor import SecondaryRecord, join
from engine.errors import DamageError, JetoolError, NotFoundError, RefusedError, UsageError
from engine.storage.memory import MemoryStorage
from engine.txn.lock_errors import LockConflictError
from engine.txn.payload import PutMode
from engine.txn.txn import Isolation, LockMode
from tests.support.environments.people import OF_CITY, People, city, tags

HOUR = int(time.time() // 3600)


def people_of(of_city: SecondaryConfig = OF_CITY) -> People:
    config = EnvironmentConfig(create=True, checkpoint_bytes=0, node_max_entries=4, lock_timeout_ms=50)
    return People(Environment(MemoryStorage(), config), of_city)


def people_in_cities(action: ForeignKeyDelete, nullifier: Nullifier | None = None) -> People:
    """The city has to be one of the cities."""
    people = people_of()
    people.by_city.close()
    people.by_city = people.open(
        "people.city",
        replace(OF_CITY, foreign_key_database=people.cities, on_foreign_delete=action, nullifier=nullifier),
    )
    return people


def test_records_are_found_by_other_keys() -> None:
    people = people_of()
    people.db.put(b"1", b"London|ada@x|math,poems")
    people.db.put(b"2", b"London||math")
    people.db.put(b"3", b"||")
    assert list(people.by_city) == [
        SecondaryRecord(b"London", b"1", b"London|ada@x|math,poems"),
        SecondaryRecord(b"London", b"2", b"London||math"),
    ]
    assert people.by_mail.get(b"ada@x") == SecondaryRecord(b"ada@x", b"1", b"London|ada@x|math,poems")
    assert [(found.key, found.primary_key) for found in people.by_tag.items(b"math", b"poems")] == [
        (b"math", b"1"), (b"math", b"2"),
    ]  # fmt: skip
    assert people.by_mail.get(b"nobody") is None


def test_a_secondary_is_kept_as_je_keeps_it() -> None:
    """A database with the primary key as data; of several records one data item each."""
    people = people_of()
    people.db.put(b"1", b"London|ada@x|a,b")
    people.db.put(b"2", b"London||")
    assert list(people.env.open_database("people.city")) == [(b"London", b"1"), (b"London", b"2")]
    assert list(people.env.open_database("people.mail")) == [(b"ada@x", b"1")]
    assert people.by_tag.count() == 2


def test_any_changes_keep_them_together() -> None:
    people, chosen = people_of(), random.Random(3)
    refused = 0
    for _ in range(400):
        key = b"%02d" % chosen.randrange(30)
        data = b"|".join(
            (
                chosen.choice((b"", b"Oslo", b"Rome")),
                chosen.choice((b"", b"", b"m%d" % chosen.randrange(4))),
                b",".join(chosen.sample((b"a", b"b", b"c"), chosen.randrange(4))),
            )
        )
        try:
            with people.env.begin() as txn:
                match chosen.randrange(6):
                    case 0:
                        people.db.delete(key, txn)
                    case 1:
                        people.by_city.delete(chosen.choice((b"Oslo", b"Rome")), txn)
                    case 2:
                        with people.by_tag.cursor(txn) as cursor:
                            if cursor.search_range(b"b") is not None:
                                assert cursor.delete()
                    case 3:
                        with people.db.cursor(txn) as cursor:
                            if cursor.search_range(key) is not None:
                                cursor.put_current(data)
                    case _:
                        people.db.put(key, data, txn, mode=chosen.choice(list(PutMode)))
                if chosen.random() < 0.1:
                    txn.abort()
        except UniqueConstraintError:
            refused += 1
        assert people.disagreements() == []
    assert refused > 5


def test_a_key_that_has_to_be_unique() -> None:
    people = people_of()
    people.db.put(b"1", b"|m|")
    with pytest.raises(UniqueConstraintError, match=r"people\.mail"):
        people.db.put(b"2", b"|m|")
    assert people.db.get(b"2") is None
    # Within a transaction nothing is left to do but to abort it.
    txn = people.env.begin()
    with pytest.raises(UniqueConstraintError):
        people.db.put(b"2", b"Oslo|m|", txn)
    with pytest.raises(RefusedError, match="abort-only"):
        people.db.put(b"3", b"||", txn)
    txn.abort()
    assert people.disagreements() == []
    assert people.by_city.count() == 0
    # The record itself may be written again with its key.
    assert people.db.put(b"1", b"Oslo|m|")


def test_a_creator_that_fails_changes_nothing() -> None:
    people = people_of()
    with people.env.begin() as txn:
        with pytest.raises(IndexError):
            people.db.put(b"1", b"London", txn)
        people.db.put(b"2", b"London||", txn)
    assert list(people.db) == [(b"2", b"London||")]
    assert people.disagreements() == []


def test_populating_at_creation() -> None:
    env = Environment(MemoryStorage(), EnvironmentConfig(create=True))
    db = env.create_database("people")
    for number in range(50):
        db.put(b"%02d" % number, b"c%d||" % (number % 3))
    config = SecondaryConfig(create=True, key_creator=city)
    with env.open_secondary("by", db, config) as by:
        assert by.count() == 50
        assert by.get(b"c2") == SecondaryRecord(b"c2", b"02", b"c2||")
    # While it is closed nobody maintains it, as in JE; what is there is not filled again.
    db.put(b"99", b"c9||")
    with env.open_secondary("by", db, config) as by:
        assert by.get(b"c9") is None
        db.delete(b"01")
        with pytest.raises(DamageError, match="does not agree"):
            db.delete(b"99")
        assert db.get(b"99") == b"c9||"


def test_a_unique_key_that_is_not_unique_cannot_be_populated() -> None:
    env = Environment(MemoryStorage(), EnvironmentConfig(create=True))
    db = env.create_database("people")
    db.put(b"1", b"x||")
    db.put(b"2", b"x||")
    with pytest.raises(UniqueConstraintError):
        env.open_secondary("by", db, SecondaryConfig(create=True, key_creator=city, duplicates=False))
    # It is not left open: the primary can be written to.
    assert db.put(b"3", b"x||")


def test_a_foreign_key_has_to_be_there() -> None:
    people = people_in_cities(ForeignKeyDelete.ABORT)
    with pytest.raises(ForeignConstraintError, match="cities"):
        people.db.put(b"1", b"Oslo||")
    assert people.db.get(b"1") is None
    people.cities.put(b"Oslo", b"")
    people.db.put(b"1", b"Oslo||")
    with pytest.raises(DeleteConstraintError):
        people.cities.delete(b"Oslo")
    assert people.cities.get(b"Oslo") == b""
    people.db.delete(b"1")
    assert people.cities.delete(b"Oslo") == 1


def test_a_deletion_takes_the_records_along() -> None:
    people = people_in_cities(ForeignKeyDelete.CASCADE)
    for name in (b"Oslo", b"Rome"):
        people.cities.put(name, b"")
    for number in range(20):
        people.db.put(b"%02d" % number, (b"Oslo|m%d|a" if number % 2 else b"Rome|m%d|a") % number)
    with people.cities.cursor() as cursor:
        cursor.search(b"Oslo")
        cursor.delete()
    assert [key for key, _ in people.db] == [b"%02d" % number for number in range(0, 20, 2)]
    assert people.disagreements() == []


def test_a_deletion_takes_the_key_out_of_the_records() -> None:
    def without(_key: bytes, data: bytes, secondary_key: bytes) -> bytes:
        return data.removeprefix(secondary_key)

    people = people_in_cities(ForeignKeyDelete.NULLIFY, without)
    people.cities.put(b"Oslo", b"")
    people.db.put(b"1", b"Oslo|m|a", expiration=-(HOUR + 7))
    assert people.cities.delete(b"Oslo") == 1
    assert list(people.db) == [(b"1", b"|m|a")]
    assert people.disagreements() == []


def test_records_that_refer_to_each_other() -> None:
    """A foreign key into the primary itself, in a circle."""
    env = Environment(MemoryStorage(), EnvironmentConfig(create=True))
    db = env.create_database("staff")
    for key in (b"1", b"2", b"3"):
        db.put(key, b"")
    config = SecondaryConfig(
        create=True,
        key_creator=lambda _, data: data or None,
        foreign_key_database=db,
        on_foreign_delete=ForeignKeyDelete.CASCADE,
    )
    with env.open_secondary("staff.boss", db, config) as boss:
        for key, of in ((b"1", b"2"), (b"2", b"1"), (b"3", b"")):
            db.put(key, of)
        assert db.delete(b"1") == 1
        assert list(db) == [(b"3", b"")]
        assert boss.count() == 0


@pytest.mark.parametrize("isolation", [None, *Isolation])
def test_cursors(isolation: Isolation | None) -> None:
    people = people_of()
    for number in range(9):
        people.db.put(b"%d" % number, b"c%d||" % (number // 3))
    txn = None if isolation is None else people.env.begin(isolation=isolation)

    def short(found: SecondaryRecord | None) -> str | None:
        return None if found is None else f"{found.key.decode()}/{found.primary_key.decode()}"

    with people.by_city.cursor(txn) as at:
        assert [short(at.first()), short(at.next()), short(at.next_no_dup()), short(at.prev_no_dup())] == [
            "c0/0", "c0/1", "c1/3", "c0/2",
        ]  # fmt: skip
        assert [short(at.prev_dup()), short(at.prev()), short(at.prev_dup()), short(at.last())] == [
            "c0/1", "c0/0", None, "c2/8",
        ]  # fmt: skip
        assert [short(at.search(b"c1")), at.count(), short(at.search_both(b"c1", b"5")), short(at.next_dup())] == [
            "c1/3", 3, "c1/5", None,
        ]  # fmt: skip
        assert short(at.current()) == "c1/5"
        assert [short(at.search_both_range(b"c0", b"10")), short(at.search_range(b"c01"))] == ["c0/2", "c1/3"]
        assert [short(at.search_both(b"c0", b"5")), short(at.search(b"c")), short(at.search_range(b"c3"))] == [None] * 3
        with at.dup() as other:
            assert short(other.next()) == "c1/4"
            assert other.delete()
            assert not other.delete()
        assert [short(at.current()), short(at.next())] == ["c1/3", "c1/5"]
    if txn is not None:
        txn.commit()
    assert people.disagreements() == []


def test_joins() -> None:
    people = people_of()
    for number in range(60):
        chosen = [tag for tag, every in ((b"two", 2), (b"three", 3), (b"five", 5)) if number % every == 0]
        people.db.put(b"%02d" % number, b"c%d||%s" % (number % 2, b",".join(chosen)))
    with people.by_tag.cursor() as three, people.by_tag.cursor() as five, people.by_city.cursor() as even:
        three.search(b"three")
        five.search(b"five")
        even.search(b"c0")
        assert [key for key, _ in join([three, five, even])] == [b"00", b"30"]
        assert [key for key, _ in join([three, five])] == [b"00", b"15", b"30", b"45"]
        assert len(list(join([five]))) == 12
    with pytest.raises(UsageError), people.by_tag.cursor() as nowhere:
        list(join([nowhere]))


def test_a_reader_waits_for_the_record_and_keeps_no_lock_on_the_entry() -> None:
    people = people_of()
    people.db.put(b"1", b"Oslo||")
    writer = people.env.begin()
    people.db.put(b"2", b"Oslo||", writer)
    with people.by_city.cursor() as cursor:
        assert cursor.first() == SecondaryRecord(b"Oslo", b"1", b"Oslo||")
        with pytest.raises(LockConflictError):
            cursor.next()
        assert cursor.next(LockMode.READ_UNCOMMITTED) == SecondaryRecord(b"Oslo", b"2", b"Oslo||")
    writer.abort()
    with people.env.begin() as reader:
        assert people.by_city.get(b"Oslo", reader) == SecondaryRecord(b"Oslo", b"1", b"Oslo||")
        # The record's lock alone, which keeps the entry as it is.
        assert len(reader.inner.locks) == 1
        with pytest.raises(LockConflictError):
            people.db.delete(b"1")


def test_readers_and_writers_do_not_stop_each_other() -> None:
    """Writers move records between two keys; each reader finds every record under one of them, with that key."""
    people = people_of()
    for number in range(10):
        people.db.put(b"%d" % number, b"a||")
    wrong: list[object] = []
    done = threading.Event()

    def write(seed: int) -> None:
        chosen = random.Random(seed)
        for _ in range(60):
            try:
                with people.env.begin() as txn:
                    key = b"%d" % chosen.randrange(10)
                    people.db.put(key, chosen.choice((b"a||", b"b||")), txn)
            except LockConflictError:
                pass
            except JetoolError as error:
                wrong.append(error)

    def read() -> None:
        while not done.is_set():
            try:
                with people.env.begin() as txn:
                    found = [(record.key, record.data[:1]) for record in people.by_city.items(txn=txn)]
                wrong.extend(pair for pair in found if pair[0] != pair[1])
            except LockConflictError:
                pass
            except JetoolError as error:
                wrong.append(error)

    writers = [threading.Thread(target=write, args=(seed,)) for seed in range(3)]
    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in writers + readers:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert wrong == []
    assert people.disagreements() == []


def test_entries_expire_with_their_records() -> None:
    people = people_of()
    people.db.put(b"1", b"Oslo||", expiration=-(HOUR + 2))
    people.db.put(b"2", b"Oslo||", expiration=-(HOUR - 2))
    assert [found.primary_key for found in people.by_city] == [b"1"]
    assert list(people.by_city.database) == [(b"Oslo", b"1")]
    # Another expiration for the same data reaches the entry.
    people.db.put(b"1", b"Oslo||", expiration=-(HOUR - 2), update_expiration=True)
    assert list(people.by_city) == []
    assert list(people.by_city.database) == []
    people.db.put(b"1", b"Oslo||")
    assert list(people.by_city.database) == [(b"Oslo", b"1")]


def test_keys_that_never_change_are_not_made_again() -> None:
    env = Environment(MemoryStorage(), EnvironmentConfig(create=True))
    db = env.create_database("db")
    asked: list[bytes] = []

    def creator(key: bytes, data: bytes) -> bytes:
        asked.append(data)
        return data[:1]

    env.open_secondary("by", db, SecondaryConfig(create=True, key_creator=creator, immutable=True))
    db.put(b"k", b"a1")
    db.put(b"k", b"a2")
    assert asked == [b"a1"]
    assert db.delete(b"k") == 1


def test_an_entry_that_leads_to_nothing_is_told() -> None:
    people = people_of()
    people.db.put(b"1", b"Oslo||")
    people.env.open_database("people.city").put(b"Rome", b"7")
    assert people.by_city.get(b"Oslo") is not None
    with pytest.raises(DamageError, match="leads to no record of people"):
        people.by_city.get(b"Rome")
    assert people.by_city.get(b"Rome", lock=LockMode.READ_UNCOMMITTED) is None


def test_every_handle_of_the_primary_maintains_them() -> None:
    people = people_of()
    with people.env.open_database("people") as other:
        other.put(b"1", b"Oslo||")
    assert people.disagreements() == []
    people.by_city.close()
    people.by_city.close()
    people.db.put(b"2", b"Oslo||")
    assert list(people.env.open_database("people.city")) == [(b"Oslo", b"1")]


def wrong_configs(people: People) -> Iterator[tuple[Database, SecondaryConfig]]:
    duplicates = people.env.create_database("dups", DatabaseOptions(duplicates=True))
    yield people.db, SecondaryConfig(create=True)
    yield people.db, SecondaryConfig(create=True, key_creator=city, multi_key_creator=tags)
    yield duplicates, SecondaryConfig(create=True, key_creator=city)
    yield people.db, SecondaryConfig(create=True, key_creator=city, foreign_key_database=duplicates)
    yield people.db, SecondaryConfig(create=True, key_creator=city, on_foreign_delete=ForeignKeyDelete.NULLIFY)


def test_what_makes_no_sense_is_refused() -> None:
    people = people_of()
    for db, config in wrong_configs(people):
        with pytest.raises(UsageError):
            people.env.open_secondary("wrong", db, config)
    with pytest.raises(UsageError, match="with duplicates"):
        people.open("people.city", SecondaryConfig(key_creator=city, duplicates=False))
    with pytest.raises(NotFoundError):
        people.open("missing", SecondaryConfig(key_creator=city))
    people.db.put(b"1", b"Oslo||")
    assert people.disagreements() == []


def test_without_a_creator_it_can_be_read() -> None:
    people = people_of()
    people.db.put(b"1", b"Oslo||")
    people.env.close()
    storage = people.env.engine.storage
    with Environment(storage, EnvironmentConfig(read_only=True)) as env:
        by = env.open_secondary("people.city", env.open_database("people"), SecondaryConfig())
        assert by.get(b"Oslo") == SecondaryRecord(b"Oslo", b"1", b"Oslo||")


def test_a_cascade_waits_for_who_takes_an_entry_away() -> None:
    """Whatever the isolation: a transaction that reads uncommitted records met entries that were just going."""
    people = people_in_cities(ForeignKeyDelete.CASCADE)
    people.cities.put(b"Oslo", b"")
    people.db.put(b"1", b"Oslo||")
    people.db.put(b"2", b"Oslo||")
    writer = people.env.begin()
    people.db.delete(b"1", writer)
    with people.env.begin(isolation=Isolation.READ_UNCOMMITTED) as txn:
        with pytest.raises(LockConflictError):
            people.cities.delete(b"Oslo", txn)
        txn.abort()
    writer.abort()
    with people.env.begin(isolation=Isolation.READ_UNCOMMITTED) as txn:
        assert people.cities.delete(b"Oslo", txn) == 1
    assert list(people.db) == []
    assert people.disagreements() == []


@pytest.mark.parametrize("options", [DatabaseOptions(deferred_write=True), DatabaseOptions(temporary=True)])
def test_a_secondary_is_as_durable_as_its_primary(options: DatabaseOptions) -> None:
    env = Environment(MemoryStorage(), EnvironmentConfig(create=True, checkpoint_bytes=0))
    db = env.create_database("db", options)
    db.put(b"1", b"Oslo||")
    by = env.open_secondary("by", db, OF_CITY)
    db.put(b"2", b"Rome||")
    db.put(b"1", b"Rome||")
    assert [found.primary_key for found in by.items()] == [b"1", b"2"]
    env.checkpoint(force=True)
    db.put(b"3", b"Oslo||")
    env.engine.crash()
    with Environment(env.engine.storage) as again:
        # What a checkpoint has logged, of both alike; temporary ones are gone.
        if options.temporary:
            assert again.database_names() == []
        else:
            assert list(again.open_database("by")) == [(b"Rome", b"1"), (b"Rome", b"2")]
            assert list(again.open_database("db")) == [(b"1", b"Rome||"), (b"2", b"Rome||")]
