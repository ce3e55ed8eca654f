"""What JE's recovery tests do with trees: splits, new roots, deltas, slots that are used again, aborts (T-27 to T-53).

Most are stepwise: the log is cut after every entry, recovered twice, and compared.
"""

from __future__ import annotations

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.storage.memory import MemoryStorage
from engine.tree.tree import bins
from tests.scenarios.script import Script, live_lsns, obsolete_lsns
from tests.support.logs.entries import entries, node_flags


def key(number: int) -> bytes:
    return b"%04d" % number


@pytest.mark.parametrize("duplicates", [False, True])
def test_splits_propagate_between_checkpoints(duplicates: bool) -> None:
    """T-27, T-28: small nodes, 120 records, checkpoints between the splits."""
    script = Script(duplicates=duplicates)
    for first in range(0, 120, 5):
        script.txn(*((key(number * 37 % 120), b"data %d" % number) for number in range(first, first + 5)))
        if first % 35 == 0:
            script.checkpoint(minimize=first % 70 == 0)
    assert script.db.count() == 120
    assert script.check(3) > 100


@pytest.mark.parametrize("duplicates", [False, True])
def test_everything_goes_and_comes_again(duplicates: bool) -> None:
    """T-29, T-49, T-50: deletion of all records, compression, pruning, insertion of other ones."""
    script = Script(duplicates=duplicates)
    script.txn(*((key(number), b"first") for number in range(40)))
    script.checkpoint()
    for first in range(0, 40, 10):
        script.txn(*((key(number), None) for number in range(first, first + 10)))
        script.env.compress()
        script.checkpoint()
    assert script.db.count() == 0
    script.txn(*((key(number), b"second") for number in range(5, 30)))
    assert script.check(2) > 50


@pytest.mark.parametrize("how", ["split", "compression", "eviction"])
def test_a_new_root_is_found_without_a_checkpoint(how: str) -> None:
    """T-31: the MapLN leads to the last root, and no live root is counted obsolete."""
    script = Script()
    for number in range(40):
        script.txn((key(number), b"v" * 20))
    if how == "compression":
        script.txn(*((key(number), None) for number in range(1, 40)))
        script.env.compress()
        script.checkpoint(minimize=True)
        script.txn((key(50), b"after"))
    if how == "eviction":
        script.env.engine.evict()
        script.txn((key(50), b"after"))
        script.env.engine.evict()
    assert not live_lsns(script.env) & obsolete_lsns(script.env)
    script.env.sync()
    script.env.engine.crash()
    with Environment(script.storage) as again:
        with again.open_database("db") as db:
            assert dict(db.items()) == script.state["db"]
        assert not live_lsns(again) & obsolete_lsns(again)


def test_a_delta_of_a_node_that_is_gone_is_not_applied() -> None:
    """T-32: the BIN is logged as a delta, emptied, and pruned with its parent logged."""
    script = Script(max_entries=32, node_max_entries=32)
    script.txn(*((key(number), b"v" * 20) for number in range(100)))
    script.checkpoint(minimize=True)
    script.txn((key(10), b"changed"))
    assert script.env.engine.writer is not None
    after = script.env.engine.writer.last_lsn
    script.env.engine.evict()
    assert next(name for name, _, _ in node_flags(script.env, after, script.db.state.id)) == "NewBINDelta"
    low = next(bins(script.env.engine.ctx, script.db.state)).keys
    script.txn(*((found, None) for found in list(low)))
    script.env.compress()
    script.checkpoint()
    script.txn((key(10), b"new"))
    assert script.check(2) > 20


class SplittingListener:
    """Inserts while a checkpoint builds its dirty map, once."""

    def __init__(self) -> None:
        self.script: Script | None = None
        self.number = 500

    def step(self, name: str, done: int, total: int) -> None:
        script, self.script = self.script, None
        if script is None or name != "checkpoint CkptStart":
            self.script = script
            return
        script.txn(*((key(number), b"split") for number in range(self.number, self.number + 40)))


def test_a_level_two_split_while_the_dirty_map_is_built() -> None:
    """T-33, R-TREE-17: the dirty BINs of the new sibling are in the checkpoint."""
    listener = SplittingListener()
    script = Script.__new__(Script)
    script.storage = MemoryStorage()
    config = EnvironmentConfig(create=True, node_max_entries=6, checkpoint_bytes=0, lock_timeout_ms=50)
    script.env = Environment(script.storage, config, listener)
    script.marks, script.state = [], {"db": {}}
    script.db = script.env.create_database("db", DatabaseOptions(max_entries=6))
    script.mark()
    for number in range(0, 1000, 25):
        script.txn((key(number), b"first"))
    script.checkpoint(minimize=True)
    listener.script = script
    script.checkpoint()
    assert len(script.state["db"]) == 78
    script.txn((key(1), b"behind"))
    assert script.check(2) > 40


def test_slots_are_used_again() -> None:
    """T-34, R-TREE-23, R-REC-52: a slot that is KD or PD takes a new record, which redo brings back."""
    script = Script()
    script.txn((key(1), b"one"), (key(2), b"two"))
    script.txn((key(1), None))
    script.checkpoint()
    script.txn((key(1), b"again"))
    script.txn((key(1), None))
    script.txn((key(3), b"aborted"), abort=True)
    script.checkpoint()
    script.txn((key(3), b"three"))
    script.txn((key(1), b"once more"), (key(3), None), (key(3), b"thrice"))
    assert script.check() > 20


def test_known_deleted_in_a_delta() -> None:
    """T-37: insert, abort, checkpoint; insert, commit; delete, abort; delta; recover: the record is there."""
    script = Script(max_entries=128, node_max_entries=128)
    script.txn(*((key(number), b"v") for number in range(0, 60, 2)))
    script.txn((key(11), b"aborted"), abort=True)
    script.checkpoint()
    script.txn((key(11), b"committed"))
    script.txn((key(11), None), abort=True)
    assert script.env.engine.writer is not None
    after = script.env.engine.writer.last_lsn
    script.checkpoint()
    assert [name for name, level, _ in node_flags(script.env, after, script.db.state.id) if level == 1] == [
        "NewBINDelta"
    ]
    assert script.db.get(key(11)) == b"committed"
    assert script.check() > 20


def test_a_transaction_over_two_checkpoints() -> None:
    """T-39, E-CKPT-3: what is open while checkpoints are taken is undone from firstActive on."""
    script = Script()
    script.txn(*((key(number), b"old") for number in range(20)))
    txn = script.env.begin()
    for number in range(0, 20, 3):
        script.write(key(number), b"never", txn)
    script.checkpoint()
    script.write(key(1), None, txn)
    script.write(key(99), b"never", txn)
    script.checkpoint(minimize=True)
    script.txn((key(2), b"beside"))
    script.env.sync()
    image = MemoryStorage(script.storage.contents())
    txn.abort()
    assert script.check(2) > 20
    with Environment(MemoryStorage({p: d for p, d in image.contents().items() if p.endswith(".jdb")})) as crashed:
        assert crashed.engine.recovery.first_active_lsn < crashed.engine.recovery.ckpt_start_lsn
        with crashed.open_database("db") as db:
            assert dict(db.items()) == script.state["db"]


@pytest.mark.parametrize("duplicates", [False, True])
def test_aborts_of_deletions_and_insertions_of_one_key(duplicates: bool) -> None:
    """T-46, T-47: delete and insert of one key, aborted; aborted after compression; with the BIN logged between."""
    script = Script(duplicates=duplicates)
    script.txn(*((key(number), b"old") for number in range(12)))
    script.txn((key(3), None), (key(3), b"new"), abort=True)
    script.txn((key(3), None), (key(3), b"new"), (key(3), None), abort=True)
    txn = script.env.begin()
    script.write(key(4), None, txn)
    script.write(key(20), b"never", txn)
    script.env.compress()
    script.checkpoint()
    script.env.engine.evict()
    script.write(key(4), b"never", txn)
    txn.abort()
    script.env.compress()
    script.checkpoint()
    assert len(script.state["db"]) == script.db.count() == 12
    script.txn((key(4), None), (key(3), None))
    script.txn((key(4), b"never"), abort=True)
    script.checkpoint()
    script.txn((key(3), b"third"))
    assert script.check() > 40


@pytest.mark.parametrize("duplicates", [False, True])
def test_a_long_interval_and_repeated_updates(duplicates: bool) -> None:
    """T-51: few checkpoints, one record updated again and again, the same data item put twice."""
    script = Script(duplicates=duplicates)
    for turn in range(30):
        script.txn((key(turn % 3), b"turn %02d" % turn), (key(7), b"same"))
    script.txn((key(7), b"same"), (key(7), b"same"))
    assert script.check(2) > 50


def test_attributes_survive_and_environments_do_not_mix() -> None:
    """T-53: what a MapLN says of its database; several environments of one process at a time."""
    storages = [MemoryStorage() for _ in range(3)]
    envs = [Environment(storage, EnvironmentConfig(create=True)) for storage in storages]
    for number, env in enumerate(envs):
        env.create_database("d", DatabaseOptions(number == 1, number == 2, 10 + number)).put(b"k", b"%d" % number)
        env.sync()
    for env in envs:
        env.engine.crash()
    for number, storage in enumerate(storages):
        with Environment(storage) as env, env.open_database("d") as db:
            assert (db.duplicates, db.state.prefixing, db.state.max_entries) == (number == 1, number > 0, 10 + number)
            assert list(db.items()) == [(b"k", b"%d" % number)]


def test_versions_that_are_needed_are_never_counted_obsolete() -> None:
    """T-82: nodes, deltas and records, through deletions, deltas, a checkpoint cut off half-way, and recovery."""
    script = Script(max_entries=16, node_max_entries=16)
    for turn in range(12):
        script.txn(*((key(number * 7 % 90), b"v" * (turn * 5)) for number in range(turn * 8, turn * 8 + 8)))
        script.txn((key(turn * 7 % 90), None), abort=turn % 3 == 0)
        if turn % 2:
            script.checkpoint(minimize=turn % 4 == 1)
        script.env.engine.evict()
        script.env.compress()
        assert not live_lsns(script.env) & obsolete_lsns(script.env), turn
    script.env.sync()
    whole = {path: data for path, data in script.storage.contents().items() if path.endswith(".jdb")}
    ends = [e.lsn for e in entries(script.env) if e.type_name == "CkptEnd"]
    for lsn in ends[-3:]:
        # The last CkptEnd is cut off, so its nodes are those of a partial checkpoint (R-REC-18 d).
        number, offset = lsn >> 32, lsn & 0xFFFFFFFF
        kept = {path: data for path, data in whole.items() if int(path[:8], 16) <= number}
        kept[f"{number:08x}.jdb"] = kept[f"{number:08x}.jdb"][:offset]
        with Environment(MemoryStorage(kept)) as again:
            assert not live_lsns(again) & obsolete_lsns(again)
            again.checkpoint(force=True, minimize=True)
            assert not live_lsns(again) & obsolete_lsns(again)
    script.env.engine.crash()
