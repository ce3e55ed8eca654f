"""What is C finds what its twins find: keys in order and in none, records in trees of which parts are in memory."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.storage.memory import MemoryStorage
from engine.tree.bin_node import BIN
from engine.tree.in_node import IN
from engine.tree.tree import bins, find_bin, find_plain
from tests.support.native_core import native_core
from tests.support.tools import needs

if TYPE_CHECKING:
    from engine.native import core
else:
    core = native_core()

KEY = st.binary(max_size=4)
ASCENDING = st.sets(KEY, max_size=40).map(sorted)
KEYS = st.one_of(ASCENDING, st.lists(KEY, max_size=40))
_IN_HOURS = -1_000_000


class Triple(NamedTuple):
    """A record."""

    key: bytes
    data: bytes
    lsn: int


@given(keys=KEYS, key=KEY)
def test_a_key_is_found_where_bisect_finds_it(keys: list[bytes], key: bytes) -> None:
    index = bisect_left(keys, key)
    exact = index < len(keys) and keys[index] == key
    assert core.find(keys, key) == (index if exact else ~index)


@given(keys=KEYS, key=KEY)
def test_a_child_is_found_where_bisect_finds_it(keys: list[bytes], key: bytes) -> None:
    assert core.covering(keys, key) == bisect_right(keys, key, 1) - 1


@given(keys=KEYS, first=st.integers(0, 3))
def test_order_is_what_comparing_neighbours_says(keys: list[bytes], first: int) -> None:
    assert core.ascends(keys, first) is all(keys[at - 1] < keys[at] for at in range(first + 1, len(keys)))


def test_what_is_not_bytes_is_left_to_bisect() -> None:
    assert core.find([b"a", ("b",), b"c"], b"b") is None
    assert core.find([b"a"], ("a", "b")) is None
    assert core.find([], bytearray(b"a")) is None
    assert core.covering([b"a", 7], b"b") is None
    assert core.ascends([b"a", 7], 0) is None
    assert core.ascends([b"a"], -1) is None
    for keys in (1, (b"a",)):
        with pytest.raises(TypeError, match="takes a list"):
            core.find(keys, b"a")  # type: ignore[arg-type]


def found_by_twin(node: BIN, key: bytes) -> tuple[int, bytes | None] | None:
    """What ``live_slot`` gives for the BIN that covers a key."""
    index, exact = node.find(key)
    if not exact:
        return ~index, None
    return (index, node.values[index]) if node.is_live(index) and not node.expirations[index] else None


def found_in_c(node: BIN, key: Any) -> tuple[int, bytes | None] | None:
    return core.live_slot(node.keys, node.lsns, node.states, node.values, node.expirations, key)


CONFIG = EnvironmentConfig(create=True, node_max_entries=8, checkpoint_bytes=0)


def mixed_records(places: random.Random) -> MemoryStorage:
    """Embedded, deleted, with expirations."""
    storage = MemoryStorage()
    with Environment(storage, CONFIG) as env, env.create_database("d", DatabaseOptions(max_entries=8)) as db:
        for number in places.sample(range(600), 600):
            db.put(b"%04d" % number, b"v" * places.choice((0, 5, 40)), expiration=places.choice((0, 0, 9, _IN_HOURS)))
        for number in range(0, 600, 7):
            db.delete(b"%04d" % number)
    return storage


def wanted_keys(places: random.Random) -> list[bytes]:
    return [b"", b"zz", *(b"%04d" % places.randrange(610) + places.choice((b"", b"x")) for _ in range(3000))]


def test_slots_of_live_records_are_found() -> None:
    places = random.Random(3)
    counts = {"there": 0, "not there": 0, "not plain": 0}
    with Environment(mixed_records(places), CONFIG) as env, env.open_database("d") as db:
        for key in wanted_keys(places):
            node = find_bin(env.engine.ctx, db.state, key)
            assert node is not None
            expected = found_by_twin(node, key)
            assert found_in_c(node, key) == expected
            counts["not plain" if expected is None else "there" if expected[0] >= 0 else "not there"] += 1
            if places.random() < 0.3:
                db.get(key)
    assert min(counts.values()) > 30


def test_records_are_found_where_a_walk_finds_them() -> None:
    """In a tree that comes back into memory node by node."""
    needs("native build")
    places = random.Random(3)
    counts = {"no node": 0, "there": 0, "not there": 0, "not plain": 0}
    with Environment(mixed_records(places), CONFIG) as env, env.open_database("d") as db:
        ctx, state = env.engine.ctx, db.state
        for key in wanted_keys(places):
            first = find_plain(ctx, state, key)
            expected_node = find_bin(ctx, state, key)
            assert expected_node is not None
            expected = found_by_twin(expected_node, key)
            ticks = ctx.ticks
            node, index, data = find_plain(ctx, state, key)
            assert (None if node is None else (index, data)) == expected
            assert node is None or (node is expected_node and node.touched == ctx.ticks == ticks + 1)
            assert first[0] is None or first == (node, index, data)
            counts["no node"] += first != (node, index, data)
            counts["not plain" if expected is None else "there" if expected[0] >= 0 else "not there"] += 1
            if places.random() < 0.3:
                db.get(key)
    assert min(counts.values()) > 30


def test_a_search_in_a_tree_that_is_not_whole_is_left_to_the_twin() -> None:
    needs("native build")
    with Environment(MemoryStorage(), EnvironmentConfig(create=True)) as env, env.create_database("d") as db:
        for number in range(300):
            db.put(b"%04d" % number, b"v" * 40)
        ctx, root = env.engine.ctx, db.state.root
        assert isinstance(root, IN)
        assert find_plain(ctx, db.state, b"0123")[0] is not None
        kids = root.kids
        root.kids = []
        assert find_plain(ctx, db.state, b"0123")[0] is None
        root.kids = kids
        assert len(list(bins(ctx, db.state))) > 2


def test_lists_that_are_not_as_they_should_be_are_left_to_the_twin() -> None:
    with Environment(MemoryStorage(), EnvironmentConfig(create=True)) as env, env.create_database("d") as db:
        for number in range(300):
            db.put(b"%04d" % number, b"v" * 40)
        key = b"0123"
        node = find_bin(env.engine.ctx, db.state, key)
        assert node is not None
        index = node.find(key)[0]
        assert (found_in_c(node, key) or (None,))[0] == index
        for no_key in (bytearray(key), "0123", (key,)):
            assert found_in_c(node, no_key) is None
        for name in ("lsns", "values", "expirations", "states"):
            whole = getattr(node, name)
            setattr(node, name, whole[:-1])
            assert found_in_c(node, key) is None
            setattr(node, name, whole)
        node.keys[index] = (key,)
        assert found_in_c(node, key) is None
        node.keys[index] = key
        assert found_in_c(node, key) is not None
    with pytest.raises(TypeError, match="takes the lists"):
        core.live_slot([key])  # type: ignore[call-arg]


@given(
    data=st.lists(st.one_of(st.none(), st.binary(max_size=3)), max_size=20), places=st.randoms(use_true_random=False)
)
def test_records_of_chosen_slots(data: list[bytes | None], places: random.Random) -> None:
    keys, lsns = [b"%d" % at for at in range(40)], [at << 40 for at in range(40)]
    chosen = sorted(places.sample(range(40), len(data)))
    expected = [Triple(keys[at], value, lsns[at]) for at, value in zip(chosen, data, strict=True) if value is not None]
    made = core.records_of(Triple, keys, data, lsns, chosen)
    assert made == expected
    assert all(type(record) is Triple for record in made)


def test_records_of_slots_that_are_not_there() -> None:
    for slot in (-1, 2, 1 << 70):
        with pytest.raises((IndexError, OverflowError)):
            core.records_of(Triple, [b"a", b"b"], [b""], [1, 2], [slot])
    with pytest.raises(ValueError, match="for each chosen slot"):
        core.records_of(Triple, [b"a"], [b"", b""], [1], [0])
    with pytest.raises(ValueError, match="are tuples"):
        core.records_of(int, [b"a"], [b""], [1], [0])  # type: ignore[type-var]
