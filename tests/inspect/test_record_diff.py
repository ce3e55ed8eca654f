"""Records of two environments side by side."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.catalog.name_operations import DatabaseOptions
from engine.db.environment import Environment
from engine.events import PARTS
from engine.format.entry.ln_content import DatabaseConfig
from engine.inspect import key_ranges, record_diff
from engine.inspect.common_log import common_log, shared_log
from engine.inspect.key_ranges import worthwhile_ranges
from engine.inspect.record_diff import CHANGED, ONLY_FIRST, ONLY_SECOND, SAME, DatabaseDifference, diff_records
from engine.log.files import list_log_files
from engine.storage.base import Storage
from engine.storage.memory import MemoryStorage
from engine.storage.sorted_pairs import in_byte_order
from engine.tree.in_node import IN
from engine.tree.tree import share_before
from tests.support.environments.workload import SMALL, State, Workload, contents


def holding(state: dict[str, dict[bytes, bytes]]) -> Environment:
    env = Environment(MemoryStorage(), SMALL)
    for name, records in state.items():
        with env.create_database(name, DatabaseOptions(max_entries=4)) as db:
            for key, data in records.items():
                db.put(key, data)
    return env


class Steps:
    """Hears steps, and the records of the last one."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int, int]] = []
        self.records = 0

    def count(self, name: str, records: int) -> None:
        assert name
        self.records = records

    def step(self, name: str, done: int, total: int) -> None:
        self.heard.append((name, done, total))


def test_what_differs() -> None:
    one = holding({"users": {b"a": b"1", b"b": b"2", b"d": b"4"}, "here": {b"x": b""}})
    other = holding({"users": {b"b": b"3", b"c": b"4", b"d": b"4"}, "there": {}})
    found = diff_records(one, other, 100)
    assert found.databases == [
        DatabaseDifference("here", ONLY_FIRST, 1, 0, 0, 0, 1, 0),
        DatabaseDifference("there", ONLY_SECOND, 0, 0, 0, 0, 0, 0),
        DatabaseDifference("users", CHANGED, 3, 3, 1, 1, 1, 1),
    ]
    assert [(d.database, d.what, d.key, d.data, d.other_data) for d in found.differences] == [
        ("here", ONLY_FIRST, b"x", b"", None),
        ("users", ONLY_FIRST, b"a", b"1", None),
        ("users", CHANGED, b"b", b"2", b"3"),
        ("users", ONLY_SECOND, b"c", None, b"4"),
    ]
    assert not found.is_same
    assert diff_records(one, other, 2).differences == found.differences[:2]
    assert diff_records(one, one, 2).is_same


def test_empty_data_is_not_no_data() -> None:
    found = diff_records(holding({"t": {b"k": b""}}), holding({"t": {b"k": b"x"}}), 9)
    assert [(d.what, d.data, d.other_data) for d in found.differences] == [(CHANGED, b"", b"x")]


@pytest.mark.parametrize("seed", range(4))
def test_random_environments_as_plain_dictionaries_have_it(seed: int) -> None:
    """Duplicates too: a data item is part of its key there."""
    envs, states = [], []
    for number in range(2):
        env, workload = Environment(MemoryStorage(), SMALL), Workload(seed + 100 * number)
        workload.start(env)
        workload.run(env, 40)
        envs.append(env)
        states.append(contents(env))
    found = diff_records(envs[0], envs[1], 1 << 20)
    one, other = (flat(state) for state in states)
    assert {(d.database, d.key, d.data) for d in found.differences if d.data is not None} == one - other
    assert {(d.database, d.key, d.other_data) for d in found.differences if d.other_data is not None} == other - one
    assert sum(db.same for db in found.databases) == len(one & other)
    assert sum(db.records for db in found.databases) == len(one)
    assert sum(db.other_records for db in found.databases) == len(other)


@pytest.mark.parametrize("seed", range(6))
def test_copies_that_went_on_are_compared_by_their_slots(seed: int) -> None:
    """What is passed over without being read makes no difference to what is found."""
    one, workload = Environment(MemoryStorage(), SMALL), Workload(seed)
    workload.start(one)
    workload.run(one, 60)
    one.close()
    copy = MemoryStorage({name: one.engine.storage.open(name).read(0, 1 << 30) for name in log_names(one)})
    other = Environment(copy, SMALL)
    if seed:
        workload.run(other, 2 * seed)
    one = Environment(one.engine.storage, SMALL)
    stores = one.engine.storage, copy
    files = [list_log_files(storage) for storage in stores]
    other.sync()
    log, steps = common_log(stores[0], files[0], stores[1], files[1]), Steps()
    shared = shared_log(log, stores[0], files[0], files[1], listener=steps)
    assert shared is not None
    assert steps.heard == [("check logs", done, len(shared.files)) for done in range(len(shared.files))]
    by_slots = diff_records(one, other, 1 << 20, steps, shared=shared)
    databases = len(by_slots.databases)
    assert steps.heard[-1] == ("compare databases", databases * PARTS, databases * PARTS)
    assert steps.records == sum(db.same + db.changed + db.only_first + db.only_second for db in by_slots.databases)
    assert by_slots == diff_records(one, other, 1 << 20)
    assert sum(db.records for db in by_slots.databases) > 0


@pytest.mark.parametrize("seed", [3, 4])
def test_ranges_of_keys_together_are_the_whole(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(record_diff, "worthwhile_ranges", partial(worthwhile_ranges, least_cuts=3))
    first, workload = Environment(MemoryStorage(), SMALL), Workload(seed)
    workload.start(first)
    workload.run(first, 60)
    first.close()
    copy = MemoryStorage({name: first.engine.storage.open(name).read(0, 1 << 30) for name in log_names(first)})
    second = Environment(copy, SMALL)
    workload.run(second, 20)
    second.close()
    stores = first.engine.storage, copy
    files = [list_log_files(storage) for storage in stores]
    shared = shared_log(common_log(stores[0], files[0], stores[1], files[1]), stores[0], files[0], files[1])
    one, other = (Environment(storage, replace(SMALL, read_only=True)) for storage in stores)
    for most in (0, 3, 1 << 20):
        alone, steps = diff_records(one, other, most, shared=shared), Steps()
        assert diff_records(one, other, most, steps, shared=shared, jobs=2) == alone
        # More often than once for a database, and never backwards.
        assert len(steps.heard) > 3 * len(alone.databases)
        assert steps.heard == sorted(steps.heard)
    assert 0 < sum(db.same for db in alone.databases) < sum(db.records for db in alone.databases)
    ranges = 0
    for name in other.database_names():
        with other.open_database(name) as db:
            budget = other.engine.evictor.budget_bytes
            assert key_ranges.count_records(other.engine, db, 2, least_cuts=3) == db.count() == len(list(db.items()))
            assert other.engine.evictor.budget_bytes == budget
            ranges += len(worthwhile_ranges(other.engine, db, 2, 3)) > 1
    assert ranges > 1


Ops = list[tuple[int, bytes | None]]
changes = st.lists(st.tuples(st.integers(0, 199), st.sampled_from((None, b"", b"one", b"x" * 40))), max_size=8)


def copied(storage: Storage) -> MemoryStorage:
    names = [file.path for file in list_log_files(storage).files]
    return MemoryStorage({name: storage.open(name).read(0, 1 << 30) for name in names})


@pytest.fixture(scope="module")
def base() -> MemoryStorage:
    """Two hundred records in two databases, one with duplicates, in nodes of few slots."""
    env = Environment(MemoryStorage(), SMALL)
    for name, duplicates in (("plain", False), ("dups", True)):
        with env.create_database(name, DatabaseOptions(max_entries=4, duplicates=duplicates)) as db:
            for number in range(0, 200, 1 + duplicates):
                db.put(b"%03d" % (number // (1 + 2 * duplicates)), b"%d" % number * 5)
    env.close()
    return copied(env.engine.storage)


def changed(storage: MemoryStorage, rounds: list[tuple[Ops, bool]], ends_in_crash: bool) -> Environment:
    """A copy after rounds of changes, each with or without a checkpoint; open for reading."""
    copy = copied(storage)
    env = Environment(copy, SMALL)
    for ops, with_checkpoint in rounds:
        for name in ("plain", "dups"):
            with env.open_database(name) as db:
                for number, data in ops:
                    if data is None:
                        db.delete(b"%03d" % number)
                    else:
                        db.put(b"%03d" % number, data)
        if with_checkpoint:
            env.checkpoint(force=True)
    env.sync()
    if ends_in_crash:
        copy = copied(copy)
    env.close()
    return Environment(copy, replace(SMALL, read_only=True))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_skipped_leaves_make_no_difference(base: MemoryStorage, data: st.DataObject) -> None:
    """Both copies go on, with checkpoints or without; nodes differ on disk, in memory, or not at all."""
    rounds = st.lists(st.tuples(changes, st.booleans()), max_size=3)
    common = data.draw(st.sampled_from((base, base, None)))
    if common is None:
        before = changed(base, data.draw(rounds), data.draw(st.booleans()))
        common = copied(before.engine.storage)
        before.close()
    one, other = (changed(common, data.draw(rounds), data.draw(st.booleans())) for _ in range(2))
    stores = one.engine.storage, other.engine.storage
    files = [list_log_files(storage) for storage in stores]
    shared = shared_log(common_log(stores[0], files[0], stores[1], files[1]), stores[0], files[0], files[1])
    assert shared is not None
    assert shared.is_whole
    assert diff_records(one, other, 1 << 20, shared=shared) == diff_records(one, other, 1 << 20)


def test_the_second_environment_reads_only_leaves_that_differ(base: MemoryStorage) -> None:
    one, other = changed(base, [], False), changed(base, [([(70, b"new")], False)], True)
    stores = one.engine.storage, other.engine.storage
    files = [list_log_files(storage) for storage in stores]
    shared = shared_log(common_log(stores[0], files[0], stores[1], files[1]), stores[0], files[0], files[1])
    assert shared is not None
    assert not diff_records(one, other, 9, shared=shared).is_same
    for env, is_read in ((one, True), (other, False)):
        with env.open_database("plain") as db:
            leaves = leaves_in_memory(db.state.root)
            assert (leaves > 20) == is_read
            assert leaves > 0


def leaves_in_memory(node: object) -> int:
    assert isinstance(node, IN)
    return sum(1 if kid.is_bin else leaves_in_memory(kid) for kid in node.kids if kid is not None)


def test_a_file_that_one_log_lacks_ends_skipping(base: MemoryStorage) -> None:
    files = list_log_files(base)
    log = common_log(base, files, base, files)
    for lacking in (files, files._replace(files=files.files[1:])):
        shared = shared_log(log, base, files, lacking)
        assert shared is not None
        assert shared.is_whole == (lacking is files)


def log_names(env: Environment) -> list[str]:
    return [file.path for file in list_log_files(env.engine.storage).files]


def test_counts_are_those_of_a_walk() -> None:
    env, workload = Environment(MemoryStorage(), SMALL), Workload(11)
    workload.start(env)
    workload.run(env, 80)
    counted, most, told = 0, 0.0, list[tuple[int, float]]()
    for name in env.database_names():
        with env.open_database(name) as db:
            before = len(told)
            assert db.count(lambda *so_far: told.append(so_far)) == len(list(db.items()))
            assert told[before:] == sorted(told[before:])
            counted += db.count()
            shares = [share_before(env.engine.ctx, db.state, found.keys[-1]) for found in db.slots() or ()]
            assert shares == sorted(shares)
            most = max(most, *shares, 0.0)
    assert counted > 0
    assert 0.5 < most < 1


def test_nodes_whose_records_are_all_deleted_are_counted() -> None:
    """A deletion leaves its slot, and the slots of a whole node may be such."""
    env = Environment(MemoryStorage(), SMALL)
    told: list[tuple[int, float]] = []
    with env.create_database("t", DatabaseOptions(max_entries=4)) as db:
        for number in range(12):
            db.put(b"%02d" % number, b"")
        for number in range(12):
            db.delete(b"%02d" % number)
        assert any(not found.keys for found in db.slots() or ())
        assert db.count(lambda *so_far: told.append(so_far)) == 0
        assert told == []
        db.put(b"99", b"")
        assert db.count(lambda *so_far: told.append(so_far)) == 1
    assert [records for records, _ in told] == [1]


def flat(state: State) -> set[tuple[str, bytes, bytes]]:
    return {
        (name, key[0] if isinstance(key, tuple) else key, data)
        for name, records in state.items()
        for key, data in records.items()
    }


def test_a_database_with_duplicates_in_one_of_them_only() -> None:
    one, other = holding({"t": {b"a": b"1", b"b": b"2"}}), Environment(MemoryStorage(), SMALL)
    with other.create_database("t", DatabaseOptions(duplicates=True)) as db:
        for data in (b"1", b"2"):
            db.put(b"a", data)
    found = diff_records(one, other, 9)
    assert found.databases == [DatabaseDifference("t", CHANGED, 2, 2, 1, 0, 1, 1)]


class Backwards(bytes):
    """A key whose order is that of its bytes backwards."""

    @property
    def stored(self) -> bytes:
        """The bytes."""
        return self[::-1]


def backwards(stored: bytes) -> Backwards:
    return Backwards(stored[::-1])


def test_keys_in_the_order_of_a_java_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two trees have different orders; the records are compared by their bytes, as sorted runs."""
    monkeypatch.setattr(record_diff, "in_byte_order", partial(in_byte_order, run_bytes=2000))
    name = "app.Backwards"
    one = Environment(MemoryStorage(), replace(SMALL, comparators={name: backwards}))
    state = one.create_database("t", DatabaseOptions(max_entries=4)).state
    serialised = b"\xac\xed\x00\x05t" + len(name).to_bytes(2, "big") + name.encode()
    one.engine.naming.configure(state, DatabaseConfig(state.impl.flags, 4, 0, serialised, b"", ()))
    one.close()
    one = Environment(one.engine.storage, one.config)
    records = {b"%03d" % number: b"%d" % number for number in range(100, 160)}
    with one.open_database("t") as db:
        for key, data in records.items():
            db.put(key, data)
        assert [key for key, _ in db.items()] == sorted(records, key=lambda key: key[::-1])
    other = holding({"t": records | {b"123": b"other"}})
    for first, second in ((one, other), (other, one)):
        found = diff_records(first, second, 9)
        assert found.databases == [DatabaseDifference("t", CHANGED, 60, 60, 59, 1, 0, 0)]
        assert [d.key for d in found.differences] == [b"123"]
    assert diff_records(one, holding({"t": records}), 9).databases[0].relation == SAME
