"""Each level of ``verify`` with each lost object: what a level finds, a stronger one finds too."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.format.lsn import file_of, is_null, offset_of
from engine.storage.memory import MemoryStorage
from engine.tree.bin_node import BIN
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.tree.tree import bins, child_of, root_of
from engine.verify.tree import newest_version
from tests.support.groups.streams import open_alone
from tests.support.harness import run
from tests.support.logs.log_writer import Files, report
from tests.support.samples import part
from tests.verify.level_drill import INCLUDED

TREES = ("--tree", "--refs", "--data", "--space", "--full")
BOTH_LOG = ("--log", "", "--full")
REP = "--rep"
INTERNAL_NAMES = {"VLSN index": "_jeVlsnMapDb", "group": "_jeRepGroupDB", "summary": "_jeUtilization"}
Place = Callable[[Environment], int]


@cache
def made(*, replicated: bool) -> Files:
    """A closed environment of several files, and what is in it was logged early: a scratch database comes after."""
    storage = MemoryStorage()
    if replicated:
        env = open_alone(storage, file_max_bytes=20_000, node_max_entries=6)
    else:
        config = EnvironmentConfig(create=True, node_max_entries=6, checkpoint_bytes=0, file_max_bytes=20_000)
        env = Environment(storage, config)
    with env:
        for name in ("large", "other"):
            with env.create_database(name, DatabaseOptions(max_entries=6)) as db, env.begin() as txn:
                for i in range(120):
                    db.put(b"%04d" % i, b"%04d" % i + b"." * 40, txn)
        env.checkpoint(force=True, minimize=True)
        with env.create_database("scratch", DatabaseOptions(max_entries=100)) as db:
            for i in range(500):
                db.put(b"%04d" % i, b"s" * 60)
    return {name: data for name, data in storage.contents().items() if name.endswith(".jdb")}


def state_of(env: Environment, name: str) -> DatabaseState:
    state = env.engine.catalog.by_name(name)
    assert state is not None
    return state


def _leaf_slot(env: Environment, db: DatabaseState, key: bytes | None = None) -> int:
    """Where the record of a key, by default one in the middle, is logged."""
    found = [(k, lsn) for node in bins(env.engine.ctx, db) for k, lsn in zip(node.keys, node.lsns, strict=True)]
    if key is not None:
        return next(lsn for k, lsn in found if k == key)
    return found[len(found) // 2][1]


def _bin(env: Environment, name: str) -> int:
    nodes = list(bins(env.engine.ctx, state_of(env, name)))
    return newest_version(nodes[len(nodes) // 2])


def _upper(env: Environment, name: str) -> int:
    root = root_of(env.engine.ctx, state_of(env, name))
    assert root is not None
    node: IN = child_of(env.engine.ctx, root, 1)
    assert not isinstance(node, BIN)
    return node.full_lsn


OBJECTS: dict[str, Place] = {
    "mapping root": lambda env: env.engine.catalog.mapping.root_lsn,
    "naming root": lambda env: env.engine.catalog.naming.root_lsn,
    "MapLN": lambda env: _leaf_slot(env, env.engine.catalog.mapping, b"%d" % state_of(env, "large").id),
    "NameLN": lambda env: _leaf_slot(env, env.engine.catalog.naming, b"large"),
    "VLSN index": lambda env: state_of(env, INTERNAL_NAMES["VLSN index"]).root_lsn,
    "group": lambda env: state_of(env, INTERNAL_NAMES["group"]).root_lsn,
    "BIN": lambda env: _bin(env, "large"),
    "upper IN": lambda env: _upper(env, "large"),
    "LN": lambda env: _leaf_slot(env, state_of(env, "large")),
    "summary": lambda env: _leaf_slot(env, state_of(env, INTERNAL_NAMES["summary"])),
}
# Levels that have to find an object whose entry was overwritten, with exit 1. Of records in the trees --refs reads
# headers alone; of a record of the catalogue, and of nodes, every level that walks over trees reads all.
FOUND_BY: dict[str, tuple[str, ...]] = {
    "mapping root": (*TREES, REP),
    "naming root": (*TREES, REP),
    "MapLN": TREES,
    "NameLN": TREES,
    "VLSN index": (*TREES, REP),
    "group": (*TREES, REP),
    "BIN": TREES,
    "upper IN": TREES,
    "LN": ("--data",),
    "summary": ("--data",),
}


# An environment that is not replicated has neither a VLSN index nor a group.
PLACES = [
    pytest.param(what, replicated, id=f"{what}-{'replicated' if replicated else 'alone'}")
    for replicated in (False, True)
    for what in OBJECTS
    if replicated or what not in ("VLSN index", "group")
]


def place_of(files: Files, what: str, *, replicated: bool) -> int:
    storage = MemoryStorage(dict(files))
    with Environment(storage, EnvironmentConfig(read_only=True)) as env:
        lsn = OBJECTS[what](env)
    assert not is_null(lsn), (what, replicated)
    return lsn


def overwritten(files: Files, lsn: int) -> Files:
    """The files with bytes in the body of an entry changed."""
    name = f"{file_of(lsn):08x}.jdb"
    data = bytearray(files[name])
    for at in range(offset_of(lsn) + 24, offset_of(lsn) + 28):
        data[at] ^= 0x5A
    return {**files, name: bytes(data)}


def without(files: Files, lsn: int) -> Files:
    gone = f"{file_of(lsn):08x}.jdb"
    return {name: data for name, data in files.items() if name != gone}


def verdicts(tmp_path: Path, files: Files) -> dict[str, tuple[int, set[tuple[Any, ...]]]]:
    """By level the exit code, and what was found: code, place and database."""
    env = tmp_path / "env"
    env.mkdir()
    for name, data in files.items():
        (env / name).write_bytes(data)
    found = {}
    for level in INCLUDED:
        done = run("verify", env, *([level] if level else []), "--format", "ndjson")
        lines = done.lines()
        kinds = {(row["code"], row["lsn"], row["db"], row["key"]) for row in lines if row["rec"] == "finding"}
        found[level] = done.code, kinds
        assert lines[-1]["rec"] == "summary", (level, done.err)
    return found


def assert_grows(found: dict[str, tuple[int, set[tuple[Any, ...]]]]) -> None:
    """What a level finds, every level that includes it finds."""
    for level, weaker in INCLUDED.items():
        for other in weaker:
            assert found[other][1] <= found[level][1], (other, level, found[other][1] - found[level][1])
            assert found[other][0] <= found[level][0], (other, level)


@pytest.mark.parametrize("replicated", [False, True], ids=["alone", "replicated"])
def test_a_sound_environment(tmp_path: Path, replicated: bool) -> None:
    found = verdicts(tmp_path, made(replicated=replicated))
    assert {level: code for level, (code, _) in found.items() if code} == {}


@pytest.mark.parametrize(("what", "replicated"), part(PLACES))
def test_an_object_that_was_overwritten(tmp_path: Path, what: str, replicated: bool) -> None:
    files = made(replicated=replicated)
    lsn = place_of(files, what, replicated=replicated)
    found = verdicts(tmp_path, overwritten(files, lsn))
    assert_grows(found)
    for level in (*FOUND_BY[what], *BOTH_LOG):
        assert found[level][0] == 1, level


@pytest.mark.parametrize(("what", "replicated"), part(PLACES[1:]))
def test_an_object_whose_file_is_missing(tmp_path: Path, what: str, replicated: bool) -> None:
    """Every level says that the file is missing, whatever was in it."""
    files = made(replicated=replicated)
    lsn = place_of(files, what, replicated=replicated)
    if file_of(lsn) == max(int(name[:8], 16) for name in files):
        # Nothing in a log tells of a last file that is gone.
        files = {**files, f"{file_of(lsn) + 1:08x}.jdb": b""}
    found = verdicts(tmp_path, without(files, lsn))
    assert_grows(found)
    for level, (code, _) in found.items():
        assert code == 1, level


@pytest.mark.parametrize("lost", [overwritten, without])
def test_a_lost_name_is_no_removed_database(lost: Callable[[Files, int], Files]) -> None:
    """JE-DB-002 says that nothing is wrong; where the naming tree is damaged, JE-DB-008 says what is lost."""
    files = made(replicated=False)
    damaged = lost(files, place_of(files, "NameLN", replicated=False))
    codes = [finding.code for finding in report(damaged, ("tree",)).findings]
    assert "JE-DB-002" not in codes
    assert "JE-DB-008" in codes
