"""Values that come from maps of files are those that the files have: of both builds, since the pure one has no maps."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import DamageError
from engine.format.lsn import file_of, offset_of
from engine.native import is_native
from engine.tree.tree import bins
from engine.txn.txn import Durability

# After so many scans every file has been read often enough to be mapped.
SCANS = 80
CONFIG = EnvironmentConfig(create=True, checkpoint_bytes=0, file_max_bytes=20_000, run_cleaner=False)


def written(env: Environment, records: int = 300) -> dict[bytes, bytes]:
    """Records in random order, some embedded, some too long for the fast way, some changed and deleted later."""
    places, expected = random.Random(1), dict[bytes, bytes]()
    with env.create_database("d", DatabaseOptions(max_entries=16)) as db:
        for number in places.sample(range(records), records) + places.choices(range(records), k=100):
            key, data = b"%04d" % number, places.randbytes(places.choice((0, 5, 16, 17, 100, 100, 100, 6000)))
            with env.begin(durability=Durability.NO_SYNC) as txn:
                db.put(key, data, txn)
            expected[key] = data
        for key in places.sample(sorted(expected), 20):
            db.delete(key)
            del expected[key]
    return expected


def test_scans_and_gets_beside_a_writer(tmp_path: Path) -> None:
    with Environment(tmp_path, CONFIG) as env:
        expected = written(env)
    with Environment(tmp_path, CONFIG) as env, env.open_database("d") as db:
        for number in range(SCANS):
            assert dict(db.items()) == expected
            # What was just written is in a buffer, and some of it in no file yet.
            key = b"%04d" % (number * 7 % 300)
            db.put(key, b"%d" % number * 30)
            expected[key] = b"%d" % number * 30
        assert list(db.items(reverse=True)) == sorted(expected.items(), reverse=True)
        env.engine.evict()
        for key in sorted(expected) * 2:
            assert db.get(key) == expected[key]


@pytest.mark.parametrize("behind", [1, 60])
def test_damage_after_the_file_was_mapped_is_told(tmp_path: Path, behind: int) -> None:
    with Environment(tmp_path, CONFIG) as env:
        written(env)
    with Environment(tmp_path, CONFIG) as env, env.open_database("d") as db:
        for _ in range(SCANS):
            before = dict(db.items())
        slots = [
            (node.keys[at], node.lsns[at], node.sizes[at])
            for node in bins(env.engine.ctx, db.state)
            for at in range(len(node))
            if len(before.get(node.keys[at], b"")) == 100
        ]
        key, lsn, size = slots[len(slots) // 2]
        path = tmp_path / f"{file_of(lsn):08x}.jdb"
        content = bytearray(path.read_bytes())
        content[offset_of(lsn) + size - behind] ^= 0x40
        path.write_bytes(content)
        with pytest.raises(DamageError, match="checksum"):
            list(db.items())
        with pytest.raises(DamageError, match="checksum"):
            db.get(key)
        others = [one for one, _, _ in slots if one != key]
        assert [db.get(one) for one in others] == [before[one] for one in others]


def test_records_whose_file_is_gone_are_left_out_when_nobody_misses_them(tmp_path: Path) -> None:
    with Environment(tmp_path, CONFIG) as env:
        written(env)
    with Environment(tmp_path, CONFIG) as env, env.open_database("d") as db:
        for _ in range(SCANS):
            before = dict(db.items())
        number = 1
        lost = {
            node.keys[at]
            for node in bins(env.engine.ctx, db.state)
            for at in range(len(node))
            if file_of(node.lsns[at]) == number and len(before.get(node.keys[at], b"")) > 16
        }
        assert 0 < len(lost) < len(before) // 2
        (tmp_path / f"{number:08x}.jdb").unlink()
        env.engine.access.forget(number)
        with pytest.raises(DamageError, match="missing"):
            list(db.items())
        env.engine.ctx.may_be_extinct = lambda _, key: key in lost
        # All others are as they were, those beside a lost one too.
        assert dict(db.items()) == {key: data for key, data in before.items() if key not in lost}


def test_gets_in_any_order_read_the_rest_of_a_node(tmp_path: Path) -> None:
    """What a node is filled with is what each slot has, beside a writer who changes and deletes records."""
    with Environment(tmp_path, CONFIG) as env:
        expected = written(env)
    with Environment(tmp_path, CONFIG) as env, env.open_database("d") as db:
        for _ in range(SCANS):
            dict(db.items())
        asked, order = 0, random.Random(3)
        for round_ in range(3):
            env.engine.evict()
            for number, key in enumerate(order.sample(sorted(expected), len(expected))):
                asked += key in expected
                assert db.get(key) == expected.get(key)
                if number % 7 == round_:
                    other = order.choice(sorted(expected))
                    expected[other] = b"%d" % number * order.choice((1, 40))
                    db.put(other, expected[other])
                if number % 31 == round_:
                    gone = order.choice(sorted(expected))
                    db.delete(gone)
                    assert db.get(gone) is None
                    del expected[gone]
        assert asked > 600
        assert dict(db.items()) == expected


def test_a_node_of_which_few_slots_are_read_is_not_filled(tmp_path: Path) -> None:
    with Environment(tmp_path, CONFIG) as env, env.create_database("d", DatabaseOptions(max_entries=128)) as db:
        for number in range(100):
            db.put(b"%04d" % number, b"%04d" % number * 30)
    with Environment(tmp_path, CONFIG) as env, env.open_database("d") as db:
        for _ in range(SCANS):
            assert len(dict(db.items())) == 100
        env.engine.evict()
        filled = []
        for number in range(0, 100, 10):
            assert db.get(b"%04d" % number) == b"%04d" % number * 30
            filled.append(sum(value is not None for node in bins(env.engine.ctx, db.state) for value in node.values))
        # The seventh of a hundred is more than one in sixteen.
        assert filled[:6] == [1, 2, 3, 4, 5, 6]
        assert filled[6:] == ([100] * 4 if is_native() else [7, 8, 9, 10])
        assert [data for _, data in db.items()] == [b"%04d" % number * 30 for number in range(100)]
