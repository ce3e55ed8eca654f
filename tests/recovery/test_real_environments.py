"""Every environment that real JE left behind: recovery in memory gives what JE's own dump gives
(je-behaviour.md 5, E-REC, E-RB).

One test for each fixture of every log version: closed and crashed, duplicates in both forms, deltas, prefixes, embedded
and expiring records, prepared transactions, replication with rollback periods, damaged tails. What JE refuses is
refused.
"""

from __future__ import annotations

import hashlib
import json
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from engine.catalog.catalog import Catalog
from engine.errors import JetoolError
from engine.log.access import LogAccess
from engine.log.files import list_log_files
from engine.log.tail import find_end
from engine.recovery.manager import Recovery
from engine.storage.disk import DiskStorage
from engine.tree.comparators import DescendingKey
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.tree import bins, slot_data
from tests.support import corpus

FIXTURES = corpus.path() / "je"
MANIFESTS = sorted(FIXTURES.rglob("manifest.json"))


def figures_of(manifest: Path) -> dict[str, Any] | None:
    """What JE says of its recovery; None where it says nothing."""
    file = manifest.parent / "expected" / "recovery.json"
    return json.loads(file.read_text()).get("recovery") if file.exists() else None


WITH_FIGURES = [manifest for manifest in MANIFESTS if figures_of(manifest)]


def test_fixtures_are_there() -> None:
    assert len(MANIFESTS) == 114


def recover(env: Path) -> tuple[TreeContext, Catalog, Recovery]:
    storage = DiskStorage(env)
    files = list_log_files(storage)
    tail = find_end(storage, files)
    ctx = TreeContext(LogAccess(storage, files.files))
    recovery = Recovery(ctx, tail, {"fx.ReverseOrder": DescendingKey})
    return ctx, recovery.run(), recovery


def digest(ctx: TreeContext, db: DatabaseState, now_ms: float) -> tuple[int, str]:
    """Number of records and the digest that the fixtures' README defines."""
    total, count = hashlib.sha256(), 0
    for node in bins(ctx, db):
        for index in range(len(node)):
            data = slot_data(ctx, node, index) if node.is_live(index) else None
            if data is None or has_expired(node.expirations[index], now_ms):
                continue
            key: Any = node.keys[index]
            if db.duplicates:
                key, data = key
            parts = (getattr(key, "stored", key), data)
            for part in parts:
                total.update(struct.pack(">i", len(part)) + part)
            count += 1
    return count, total.hexdigest()


def has_expired(expiration: int, now_ms: float) -> bool:
    if not expiration:
        return False
    return now_ms > (expiration * 86_400_000 if expiration > 0 else -expiration * 3_600_000)


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: str(path.parent.relative_to(FIXTURES)))
def test_same_databases_and_records_as_je(manifest: Path) -> None:
    said = json.loads(manifest.read_text())
    env = manifest.parent / "env"
    before = {path.name: path.stat().st_mtime_ns for path in env.rglob("*")}
    if said["onOpen"]["forWriting"] != "ok":
        with pytest.raises(JetoolError) as caught:
            recover(env)
        assert caught.value.exit_code in (3, 7)
        return
    ctx, catalog, _ = recover(env)
    expected = {db["name"]: (db["records"], db["sha256"]) for db in said["databases"]}
    found = {}
    for name, _ in catalog.names():
        db = catalog.by_name(name)
        if db is not None and not db.temporary:
            found[name] = digest(ctx, db, time.time() * 1000)
    assert found == expected
    assert {path.name: path.stat().st_mtime_ns for path in env.rglob("*")} == before


def test_an_order_that_nobody_registered_is_learned() -> None:
    """je-log-format.md 16, point 12: the database with its own comparator is read in the order of its nodes."""
    case = FIXTURES / "je-18.3.20" / "schema-closed"
    said = {db["name"]: db for db in json.loads((case / "manifest.json").read_text())["databases"]}
    storage = DiskStorage(case / "env")
    files = list_log_files(storage)
    ctx = TreeContext(LogAccess(storage, files.files))
    catalog = Recovery(ctx, find_end(storage, files), {}).run()
    db = catalog.by_name("newest_first")
    assert db is not None
    assert db.order.comparator == "fx.ReverseOrder"
    assert digest(ctx, db, time.time() * 1000) == (said["newest_first"]["records"], said["newest_first"]["sha256"])


@pytest.mark.parametrize("manifest", WITH_FIGURES, ids=lambda path: str(path.parent.relative_to(FIXTURES)))
def test_same_starting_points_as_je(manifest: Path) -> None:
    """R-REC-4, R-REC-5, R-REC-15: the checkpoint, the first active LSN, the end of the log, the highest ids."""
    said = figures_of(manifest)
    assert said is not None
    _, _, recovery = recover(manifest.parent / "env")
    result = recovery.result
    assert result.end_lsn == lsn_of(said["nextAvailableLsn"])
    assert result.ckpt_end_lsn == lsn_of(said["checkpointEndLsn"])
    assert result.ckpt_start_lsn == lsn_of(said["checkpointStartLsn"])
    assert result.first_active_lsn == lsn_of(said["firstActiveLsn"])
    assert result.root_lsn == lsn_of(said["useRootLsn"])
    ids = result.ids
    found = (ids.node, ids.db, ids.txn, ids.replicated_txn)
    names = ("useMaxNodeId", "useMaxDbId", "useMaxTxnId", "useMinReplicatedTxnId")
    assert found == tuple(said.get(name, mine) for name, mine in zip(names, found, strict=True))


def lsn_of(text: str | None) -> int:
    if text is None:
        return -1
    file, offset = text.split("/")
    return int(file, 16) << 32 | int(offset, 16)
