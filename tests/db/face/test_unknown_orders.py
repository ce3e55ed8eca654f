"""Databases in the order of a class that is not known here: read as far as the nodes show it, written only where no
order is needed. The opener that knows the class is the judge."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import UnsupportedError, UsageError
from engine.log.files import list_log_files
from engine.storage.memory import MemoryStorage
from engine.tree.comparators import ORDERS, SortKey
from engine.verify.environment import verify_environment

CLASS = "com.example.Order"
NAMES = sorted(set(ORDERS) - {"ascending"})
Model = dict[bytes, bytes]
Change = Callable[[Environment], object]
WRITERS: Mapping[str, Change] = {
    "opened": lambda env: None,
    "checkpoint": lambda env: env.checkpoint(force=True),
    "put elsewhere": lambda env: env.open_database("plain").put(b"more", b"1"),
    "new database": lambda env: env.create_database("new").put(b"k", b"v"),
    "cleaned": lambda env: env.engine.cleaner and env.engine.cleaner.clean(),
}


def knowing(name: str, **settings: object) -> EnvironmentConfig:
    config = EnvironmentConfig(
        create=True, node_max_entries=6, file_max_bytes=8_000, comparators={CLASS: ORDERS[name].sort_key}
    )
    return config if not settings else EnvironmentConfig(**{**vars(config), **settings})


def made(name: str, *, closed: bool, later: str = "insert") -> tuple[MemoryStorage, Model]:
    """An environment with a database ``odd`` in that order, closed or halted; with changes after the checkpoint."""
    chosen, storage = random.Random(f"{name} {closed} {later}"), MemoryStorage()
    env = Environment(storage, knowing(name))
    env.create_database("plain").put(b"a", b"1")
    db = env.create_database("odd", DatabaseOptions(max_entries=6, comparator=CLASS))
    sort_key = ORDERS[name].sort_key
    model: dict[object, tuple[bytes, bytes]] = {}

    def change(keys: list[bytes]) -> None:
        for key in keys:
            data = b"%d" % chosen.randrange(10**9)
            db.put(key, data)
            # Keys that are equal in this order are one record.
            model[sort_key(key) if name != "descending" else key] = (key, data)

    keys = [b"%d" % number for number in chosen.sample(range(-500, 5_000), 150)]
    change(keys)
    env.checkpoint(force=True)
    if later == "insert":
        change([b"%d" % number for number in chosen.sample(range(5_000, 20_000), 40)])
    if closed:
        env.close()
    else:
        env.sync()
        env.engine.crash()
        storage = env.engine.storage  # type: ignore[assignment]
    return storage, dict(model.values())


def records(storage: MemoryStorage, config: EnvironmentConfig) -> Model:
    with Environment(storage, config) as env, env.open_database("odd") as db:
        listed = list(db)
        assert all(db.get(key) == data for key, data in listed)
        return dict(listed)


def files_of(storage: MemoryStorage) -> dict[str, bytes]:
    """Its files but the lock file."""
    return {path: data for path, data in storage.contents().items() if path != "je.lck"}


def faults(storage: MemoryStorage, comparators: Mapping[str, SortKey]) -> list[str]:
    levels = ("log", "tree", "refs", "data")
    return [
        str(f) for f in verify_environment(storage, list_log_files(storage), levels, comparators=comparators).findings
    ]


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("name", NAMES)
def test_a_halted_environment_is_refused_and_left_as_it_was(name: str, writer: str) -> None:
    storage, model = made(name, closed=False)
    before = files_of(storage)
    with (
        pytest.raises(UnsupportedError, match="'odd' is in the order of a Java class") as refused,
        Environment(storage, EnvironmentConfig()) as env,
    ):
        WRITERS[writer](env)
    assert refused.value.found == CLASS
    assert files_of(storage) == before
    assert records(storage, knowing(name)) == model


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("name", NAMES)
def test_a_closed_environment_can_be_written_to(name: str, writer: str) -> None:
    storage, model = made(name, closed=True)
    with Environment(storage, EnvironmentConfig(run_cleaner=False)) as env:
        WRITERS[writer](env)
        with env.open_database("odd") as db, pytest.raises(UnsupportedError, match="'odd'"):
            db.put(b"1", b"1")
    comparators = knowing(name).comparators
    assert faults(storage, comparators) == []
    assert records(storage, knowing(name)) == model


@pytest.mark.parametrize("name", NAMES)
def test_all_records_are_read_and_those_of_unknown_place_are_counted(name: str) -> None:
    storage, model = made(name, closed=False)
    with Environment(storage, EnvironmentConfig(read_only=True)) as env, env.open_database("odd") as db:
        assert dict(db) == model
        assert all(db.get(key) == data for key, data in model.items())
        assert {key for slots in db.slots() or () for key in map(db.state.order.unwrap, slots.keys)} == set(model)
        with pytest.raises(UnsupportedError, match="'odd'"):
            db.get(b"no node has this")
        learned = db.state.order.learned
        assert learned is not None
        # Of 40 records some were in nodes that splits have logged.
        assert 0 < learned.guessed <= 40


@pytest.mark.parametrize("name", NAMES)
def test_the_check_does_not_go_by_an_order_that_it_made(name: str) -> None:
    storage, _ = made(name, closed=False)
    report = verify_environment(storage, list_log_files(storage), ("log", "tree", "refs", "data"))
    assert report.findings == ()
    assert "key order of odd (its comparator is a Java class)" in report.not_checked


@pytest.mark.parametrize("name", NAMES)
def test_an_order_that_contradicts_the_nodes_is_refused(name: str) -> None:
    storage, model = made(name, closed=False)
    before = files_of(storage)
    # Numbers of one to five digits contradict each of these in any other order.
    for other in {"descending", "longest-first", "from-last"} - {name}:
        with pytest.raises(UsageError, match="the order given for 'odd'"):
            Environment(storage, EnvironmentConfig(comparators={CLASS: ORDERS[other].sort_key}))
    # A function that fails is wrong, too.
    with pytest.raises(UsageError, match="the order given"):
        Environment(storage, EnvironmentConfig(comparators={CLASS: lambda key: key.decode("utf-16")}))
    assert files_of(storage) == before
    assert records(storage, knowing(name)) == model


def test_a_node_that_was_merged_by_a_guess_is_not_changed() -> None:
    """Deltas bring keys between those of the full version: where they belong only the class knows."""
    storage = MemoryStorage()
    env = Environment(storage, knowing("from-last"))
    db = env.create_database("odd", DatabaseOptions(max_entries=128, comparator=CLASS))
    for number in range(90):
        db.put(b"%d" % (number * 7919 % 1000), b"old")
    env.checkpoint(force=True)
    db.put(b"15", b"in a delta")
    env.checkpoint(force=True)
    db.put(b"15", b"changed once more")
    env.sync()
    env.engine.crash()
    crashed = env.engine.storage
    with pytest.raises(UnsupportedError, match="'odd'"):
        Environment(crashed, EnvironmentConfig())
    with Environment(crashed, EnvironmentConfig(read_only=True)) as again, again.open_database("odd") as found:
        assert dict(found)[b"15"] == b"changed once more"
