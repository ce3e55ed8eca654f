"""Reading an environment as it was: the same as one that was cut there."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from engine.errors import RefusedError
from engine.log.files import list_log_files
from engine.rescue.history import horizon_of, view_at
from engine.rescue.points import LSN, Point
from engine.storage.disk import DiskStorage
from tests.support.environments import models
from tests.support.environments.copies import copy_of, state_of
from tests.support.environments.models import Modelled, entries_of
from tests.support.environments.oracle import named
from tests.support.harness import run

CLEANED = "je-18.3.20/cleaned"


@pytest.mark.parametrize("seed", [62, 64])
def test_random_points(seed: int) -> None:
    made = Modelled(seed)
    storage = made.storage()
    entries = [entry.lsn for entry in entries_of(storage) if entry.lsn > made.marks[3][0]]
    names = set()
    for lsn in random.Random(seed).sample(entries, 25):
        view, _ = view_at(storage, Point(LSN, lsn, ""))
        state = models.state_of(view)
        assert state == made.at(lsn)
        names |= {frozenset(state)}
    # Databases were made and removed meanwhile.
    assert len(names) > 1


def test_beyond_the_horizon_nothing_is_shown() -> None:
    storage = DiskStorage(named(CLEANED).path / "env")
    files = list_log_files(storage)
    assert files.files[0].number or files.missing()
    horizon = horizon_of(storage, files)
    assert horizon is not None
    view, cut = view_at(storage, Point(LSN, horizon, ""))
    assert cut.end_lsn == horizon
    models.state_of(view)
    early = next(entry.lsn for entry in entries_of(storage) if entry.lsn > 0x9_0000_0026)
    with pytest.raises(RefusedError) as caught:
        view_at(storage, Point(LSN, early, "lsn:early"))
    assert f"lsn:{horizon >> 32:#x}/{horizon & 0xFFFFFFFF:#x}" in str(caught.value.hint)


def test_the_commands(tmp_path: Path) -> None:
    env = copy_of(named("je-18.3.20/txn-crash"), tmp_path / "env")
    before = state_of(env)
    now = run("dump", env, "--db", "accounts").out
    then = run("dump", env, "--db", "accounts", "--as-of", "commits:-20").out
    counted = run("dbs", env, "--count", "--db", "accounts", "--as-of", "commits:-20", "--json").json()
    scanned = run("scan", env, "--db", "accounts", "--as-of", "commits:-20", "--format", "ndjson").lines()
    key = f"0x{scanned[0]['key']}"
    got = run("get", env, key, "--db", "accounts", "--as-of", "commits:-20", "--json")
    assert got.code == 0
    different = run("diff", env, "--as-of", "commits:-20", "--json")
    assert different.code == 1
    assert state_of(env) == before
    assert run("truncate", env, "--to", "commits:-20", "--yes").code == 6
    assert run("dump", env, "--db", "accounts").out == then != now
    assert counted["records"][0]["records"] == scanned[-1]["records"] == run("dbs", env, "--count", "--db", "accounts",
                                                                 "--json").json()["records"][0]["records"]  # fmt: skip
    assert run("get", env, key, "--db", "accounts", "--json").out == got.out


def test_usage(tmp_path: Path) -> None:
    env = copy_of(named("je-18.3.20/txn-crash"), tmp_path / "env")
    assert run("dbs", env, "--as-of", "vlsn:7").code == 4
    assert run("dbs", env, "--as-of", "now").code == 2
    assert run("diff", env, "--as-of", "commits:-1", "--from", "ckpt").code == 2
    store = tmp_path / "store"
    assert run("create", store, "--store", "derby", "--db", "t").code == 0
    for words in (("dbs",), ("scan", "--db", "t"), ("dump", "--db", "t")):
        done = run(words[0], store, *words[1:], "--as-of", "commits:-1")
        assert done.code == 2
        assert "--as-of" in done.err
