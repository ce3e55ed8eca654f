"""Real Derby's raw store as the judge of ours: it recovers what a crash left, finds the same rows, writes the same log.

The raw store knows transactions, log, pages and containers, and calls the B-tree for logical undo; it needs no SQL
catalogue. So it is asked to recover a copy of each crashed store itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from engine.derby.format import column
from engine.derby.recovery.manager import DerbyRecoveryResult, RecoveryOptions, recover
from engine.derby.store.page_store import PageStore
from engine.storage.crash import CrashMode, CrashStorage, SimulatedCrashError
from engine.storage.disk import DiskStorage
from tests.derby.store_workload import SMALL, Contents, Workload, contents_of
from tests.support.derby_java import PROPERTIES, SWITCH_BYTES, java, keep_log, put, same_log


class Pair(NamedTuple):
    """A crashed store that was recovered here, and a copy for Derby."""

    ours: Path
    derbys: Path
    result: DerbyRecoveryResult
    contents: Contents


def pairs(directory: Path, seed: int, transactions: int, step: int) -> list[Pair]:
    """Crash images of one workload, at every so many operations and at its end."""
    made = []
    total = CrashStorage()
    Workload(seed).work(PageStore.create(total, SMALL, log_file_bytes=SWITCH_BYTES), transactions)
    for at in [0, *range(40 + seed % step, total.operations, step)]:
        storage, workload = CrashStorage(), Workload(seed)
        store = PageStore.create(storage, SMALL, log_file_bytes=SWITCH_BYTES)
        storage.stop_at = at
        try:
            workload.work(store, transactions)
        except SimulatedCrashError:
            assert at
        # A torn page is beyond Derby, which does not know the copies.
        image = storage.image(CrashMode.LOST_TAIL if at % 2 else CrashMode.NO_FSYNC, at)
        ours, derbys = (put(image, directory / f"{seed}-{at}-{who}") for who in ("ours", "derbys"))
        keep_log(ours)
        result = recover(DiskStorage(ours), RecoveryOptions(switch_bytes=SWITCH_BYTES))
        with PageStore(DiskStorage(ours), read_only=True) as found:
            contents = contents_of(found)
        assert workload.allows(contents), (seed, at)
        made.append(Pair(ours, derbys, result, contents))
    return made


def as_contents(found: dict[str, Any]) -> Contents:
    """What the raw store sees; index and heap of a table must agree."""
    assert found["error"] is None, found
    containers = found["containers"]
    tables: Contents = {}
    for name, numbers in containers["32"]:
        heap, index = (int(numbers[at : at + 16], 16) for at in (0, 16))
        rows = {bytes.fromhex(key): bytes.fromhex(value) for key, value in containers[str(heap)]}
        keys = [column.decode_key(column.encode_varbit(bytes.fromhex(key))) for key, _ in containers[str(index)]]
        assert sorted(keys) == sorted(rows)
        tables[bytes.fromhex(name).decode()] = rows
    return tables


def compare(classes: Path, made: list[Pair]) -> int:
    """Let the raw store open both of each pair; how many compensation records were compared."""
    lines = "".join(f"{path}\n" for one in made for path in (one.ours, one.derbys))
    done = java(classes, "DerbyRawStore", text=lines, properties=PROPERTIES)
    assert done.returncode == 0, done.stderr
    found = [as_contents(json.loads(line)) for line in done.stdout.splitlines()]
    for index, one in enumerate(made):
        assert found[2 * index] == one.contents, one.ours
        assert found[2 * index + 1] == one.contents, one.derbys
        assert same_log(one.ours, one.derbys, one.result), one.ours
    return sum(undone.clrs for one in made for undone in one.result.undone)


def test_derbys_raw_store_recovers_ours_to_the_same_bytes(classes: Path, tmp_path: Path) -> None:
    made = [one for seed in (1, 2) for one in pairs(tmp_path, seed, transactions=8, step=41)]
    assert len(made) > 4
    assert compare(classes, made) > 20


@pytest.mark.slow
def test_derbys_raw_store_recovers_many_more(classes: Path, tmp_path: Path) -> None:
    made = [one for seed in range(200, 220) for one in pairs(tmp_path, seed, transactions=20, step=23)]
    assert len(made) > 100
    assert compare(classes, made) > 300
