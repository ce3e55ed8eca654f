"""Records that an application has discarded at one go stay away, damage or not (je-log-format.md 10.4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.db.extinction import EXTINCT_SCAN
from engine.format.bytecursor import sorted_pack
from engine.format.entry.internal_db import RecordExtinction, encode_extinct_scan
from engine.rescue.salvage.collect import Salvage
from engine.rescue.salvage.results import SalvagedRecord
from engine.rescue.salvage.sources import look_at, sources_of
from engine.tree.keys import serialized_comparator
from engine.txn.payload import Payload, PutMode

FILTER = serialized_comparator("com.example.Filter")


def environment(home: Path, *, filter_: bytes | None = None, commits: bool = True, finished: bool = True) -> None:
    """200 records and 60 pairs, of which those from 0050 to 0150 are discarded; then one of them is written anew."""
    with Environment(home, EnvironmentConfig(create=True, checkpoint_bytes=0)) as env:
        db = env.create_database("d")
        pairs = env.create_database("pairs", DatabaseOptions(duplicates=True))
        with env.begin() as txn:
            for key in range(200):
                db.put(b"%04d" % key, b"v" * 40, txn)
            for key in range(60):
                pairs.put(b"%04d" % (key * 2), b"d", txn)
        env.checkpoint(force=True)
        ids = (db.state.id, pairs.state.id)
        if not finished:
            # As if the process had ended with the commit.
            extinctions = env.engine.parts.extinctions
            assert extinctions is not None
            env.engine.parts.checkpointer.participants.remove(extinctions)
        tasks = env.engine.catalog.by_name("_jeExtinctScansDb")
        assert tasks is not None
        txn = env.begin()
        task = RecordExtinction(0, False, ids, b"0050", b"0150", filter_, "", 0, None)
        payload = Payload(encode_extinct_scan(task), EXTINCT_SCAN)
        env.engine.records.put(tasks, sorted_pack(1), payload, txn.inner, PutMode.INSERT_ONLY)
        if commits:
            txn.commit()
        else:
            txn.abort()
        env.checkpoint(force=True)
        db.put(b"0100", b"new")
        # Of these the first will be damaged.
        for _ in range(3):
            db.put(b"last", b"." * 40)
        db.close()
        pairs.close()


def damage(home: Path) -> None:
    """Nothing is recovered when commits stand after damage."""
    log = home / "00000000.jdb"
    data = bytearray(log.read_bytes())
    at = data.index(b"." * 40 + b"last")
    data[at : at + 3] = b"\xff" * 3
    log.write_bytes(data)


def salvaged(home: Path) -> tuple[list[bytes], dict[str, int]]:
    done = Salvage(sources_of([look_at(str(home))]))
    found = [one.key for one in done.rows() if isinstance(one, SalvagedRecord)]
    return found, dict(done.counts)


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("finished", [False, True])
def test_a_discarded_range_is_gone(tmp_path: Path, damaged: bool, finished: bool) -> None:
    home = tmp_path / "env"
    environment(home, finished=finished)
    if damaged:
        damage(home)
    keys, counts = salvaged(home)
    inside = [key for key in keys if b"0050" <= key < b"0150"]
    # JE discards that too when it goes on with the task, as the application must not use such keys again.
    assert inside == ([b"0100"] if damaged or finished else [])
    assert len(keys) > 100
    assert counts["records"] == len(keys)
    assert counts.get("extinct", 0) == (0 if finished and not damaged else 134 if damaged else 135)


def test_an_abort_and_a_filter(tmp_path: Path) -> None:
    """What did not commit discards nothing; what a filter chose nobody knows."""
    environment(tmp_path / "aborted", commits=False)
    environment(tmp_path / "filtered", filter_=FILTER)
    for name, maybe in (("aborted", 0), ("filtered", 134)):
        damage(tmp_path / name)
        keys, counts = salvaged(tmp_path / name)
        assert len([key for key in keys if b"0050" <= key < b"0150"]) == 135
        assert counts.get("maybe-extinct", 0) == maybe
        assert counts.get("extinct", 0) == 0
