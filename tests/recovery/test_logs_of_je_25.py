"""Logs that JE 25.3.17 wrote with what only later versions have: recovered, evicted, updated, undone as by JE.

``tests/golden/je-26/times`` crashed after BIN-deltas, an abort and an open transaction. ``times.json`` is what JE
itself then shows: data, modification time, creation time (in milliseconds since 1970), and whether the record is a
tombstone. In ``je-26/blind`` secondary records were deleted without being read.
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
from engine.log.files import list_log_files
from engine.storage.memory import MemoryStorage
from engine.tree.tree import bins, read_ln, slot_data
from engine.verify.report import NOTE
from engine.verify.trees import verify_trees
from tests.recovery.test_recover_for_writing import digests
from tests.support.logs.entries import entries, stored_entries

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
    state = env.engine.catalog.by_name(name)
    assert state is not None
    found = {}
    for node in bins(env.engine.ctx, state):
        for index, key in enumerate(node.keys):
            if node.is_live(index):
                data = slot_data(env.engine.ctx, node, index)
                assert data is not None
                times = node.times_of(index)
                if not node.states[index] & SLOT_EMBEDDED:
                    ln = read_ln(env.engine.ctx, state, node.lsns[index])
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
        env.engine.evictor.run(0)
        env.checkpoint(force=True)
        env.engine.evictor.run(0)
        kept = {name: {key: row for key, row in shown(env, name).items() if key in SAID[name]} for name in NAMES}
        assert kept == SAID
        env.engine.crash()
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
        env.engine.crash()
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


def test_blind_deletions_are_taken_back_as_by_je() -> None:
    """A blind deletion does not say where the record was; until v19 there were none. Figures and digests are JE's."""
    path = GOLDEN.parent / "blind" / "00000000.jdb"
    storage = MemoryStorage({path.name: path.read_bytes()})
    blind = [r for e in stored_entries(storage) if isinstance(r := e.record(), LN) and r.blind_deletion]
    assert len(blind) == 2
    said = {
        "pri": (79, "0b10937d820341a16e6e5bb07e0bb5b27986ad62d914feb6882644aba084b708"),
        "sec": (79, "795ae93553d1577292de36029f229c221bca1e018319da5955d4b552101d0db9"),
    }
    with open_golden(storage, read_only=True) as env:
        assert digests(env) == said
    with open_golden(storage) as env:
        assert digests(env) == said
    found = verify_trees(storage, list_log_files(storage), ("tree", "refs", "data", "space"))
    assert [finding for finding in found.findings if finding.severity != NOTE] == []
    with open_golden(storage, read_only=True) as env:
        assert digests(env) == said


def last_ln(env: Environment) -> LN:
    """The LN that was logged last."""
    return [record for entry in entries(env) if isinstance(record := entry.record(), LN)][-1]
