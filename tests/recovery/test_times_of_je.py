"""Times and tombstones of a log that JE 25.3.17 wrote: read, recovered, evicted, updated, undone as JE has them.

``tests/golden/je-26/times`` crashed behind BIN-deltas, an abort and an open transaction. ``times.json`` is what JE
itself then shows: data, modification time, creation time (in milliseconds since 1970), and whether the record is a
tombstone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.format.entry.ln import ABORT_TOMBSTONE, LN, TOMBSTONE
from engine.format.entry.node import SLOT_EMBEDDED, SLOT_TOMBSTONE
from engine.storage.memory import MemoryStorage
from engine.tree.tree import bins, read_ln, slot_data
from tests.db.logs import entries

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "je-26" / "times"
SAID: dict[str, dict[str, Any]] = json.loads((GOLDEN / "times.json").read_text())
NOW_MS = 1_800_000_000_000
NAMES = ("plain", "prefixed")


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage({"00000000.jdb": (GOLDEN / "00000000.jdb").read_bytes()})


def open_golden(storage: MemoryStorage, **settings: Any) -> Environment:
    return Environment(storage, EnvironmentConfig(clock=lambda: NOW_MS, checkpoint_bytes=0, **settings))


def shown(env: Environment, name: str) -> dict[str, list[Any]]:
    """The records of a database as ``times.json`` has them."""
    state = env.catalog.by_name(name)
    assert state is not None
    found = {}
    for node in bins(env.ctx, state):
        for index, key in enumerate(node.keys):
            if node.is_live(index):
                data = slot_data(env.ctx, node, index)
                assert data is not None
                times = node.times_of(index)
                if not node.states[index] & SLOT_EMBEDDED:
                    ln = read_ln(env.ctx, state, node.lsns[index])
                    times = times._replace(modified=ln.modification_time, created=ln.creation_time)
                found[key.hex()] = [data.hex(), *times, bool(node.states[index] & SLOT_TOMBSTONE)]
    return found


def keys_where(name: str, *, embedded: bool, created: bool, tombstone: bool) -> list[str]:
    """Keys of records of a kind; data of more than 16 bytes is not embedded."""
    return [
        key for key, (data, _, made, gone) in SAID[name].items()
        if (len(data) <= 32, bool(made), gone) == (embedded, created, tombstone)
    ]  # fmt: skip


def test_every_kind_is_there() -> None:
    for embedded in (False, True):
        for created in (False, True):
            for tombstone in (False, True):
                assert keys_where("plain", embedded=embedded, created=created, tombstone=tombstone)


@pytest.mark.parametrize("read_only", [True, False])
def test_recovered_as_by_je(storage: MemoryStorage, read_only: bool) -> None:
    """Redo, undo of the abort and of the open transaction, full nodes, deltas."""
    with open_golden(storage, read_only=read_only) as env:
        assert {name: shown(env, name) for name in NAMES} == SAID


def test_nodes_that_are_logged_again_keep_them(storage: MemoryStorage) -> None:
    """By recovery's checkpoint, eviction, a checkpoint of deltas, and splits on both sides."""
    with open_golden(storage) as env:
        for name in NAMES:
            with env.open_database(name) as db:
                for i in range(0, 2000, 7):
                    db.put(b"%04d+" % i, b"new")
        env.evictor.run(0)
        env.checkpoint(force=True)
        env.evictor.run(0)
        kept = {name: {key: row for key, row in shown(env, name).items() if key in SAID[name]} for name in NAMES}
        assert kept == SAID
        env.crash()
    with open_golden(storage) as env:
        kept = {name: {key: row for key, row in shown(env, name).items() if key in SAID[name]} for name in NAMES}
        assert kept == SAID


@pytest.mark.parametrize("embedded", [True, False])
@pytest.mark.parametrize("created", [True, False])
@pytest.mark.parametrize("tombstone", [True, False])
def test_an_update_keeps_the_creation_time(
    storage: MemoryStorage, embedded: bool, created: bool, tombstone: bool
) -> None:
    """The tombstone and the modification time go; an abort brings all of them back, after a crash too."""
    key = keys_where("plain", embedded=embedded, created=created, tombstone=tombstone)[0]
    said = SAID["plain"][key]
    with open_golden(storage) as env, env.open_database("plain") as db:
        txn = env.begin()
        assert db.put(bytes.fromhex(key), b"now", txn)
        assert shown(env, "plain")[key] == [b"now".hex(), NOW_MS, said[2], False]
        ln = last_ln(env)
        assert (ln.modification_time, ln.creation_time, ln.flags2 & TOMBSTONE) == (NOW_MS, said[2], 0)
        assert bool(ln.flags2 & ABORT_TOMBSTONE) is tombstone
        assert (ln.abort_modification_time, ln.abort_creation_time) == (tuple(said[1:3]) if embedded else (0, 0))
        txn.abort()
        assert shown(env, "plain")[key] == said
        txn = env.begin()
        assert db.put(bytes.fromhex(key), b"now", txn)
        env.sync()
        env.crash()
    with open_golden(storage) as env:
        assert shown(env, "plain") == SAID["plain"]


@pytest.mark.parametrize("embedded", [True, False])
@pytest.mark.parametrize("created", [True, False])
def test_a_deletion_repeats_the_creation_time(storage: MemoryStorage, embedded: bool, created: bool) -> None:
    """A record that is inserted where another was begins anew."""
    key = keys_where("plain", embedded=embedded, created=created, tombstone=False)[0]
    said = SAID["plain"][key]
    with open_golden(storage) as env, env.open_database("plain") as db:
        txn = env.begin()
        assert db.delete(bytes.fromhex(key), txn) == 1
        ln = last_ln(env)
        assert (ln.data, ln.modification_time, ln.creation_time) == (None, NOW_MS, said[2])
        txn.abort()
        assert shown(env, "plain")[key] == said
        assert db.delete(bytes.fromhex(key)) == 1
        assert db.put(bytes.fromhex(key), b"again")
        assert shown(env, "plain")[key] == [b"again".hex(), NOW_MS, 0, False]


def last_ln(env: Environment) -> LN:
    """The LN that was logged last."""
    return [record for entry in entries(env) if isinstance(record := entry.record(), LN)][-1]
