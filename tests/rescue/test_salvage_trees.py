"""``salvage`` of logs whose cleaner has deleted files: what the trees hold comes back, and nothing that was deleted."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.format.entry.ln import LN
from engine.format.entry_types import BIN_TYPE, MAP_LNS, NAME_LNS, NODES
from engine.format.lsn import file_of
from engine.inspect.group_record import GROUP_KEY_BYTES
from engine.rescue.missing_files import CLEANED, MISSING, find_missing
from engine.rescue.salvage.sources import look_at, sources_of
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from tests.rescue.test_salvage import Found, flip, write
from tests.support import corpus
from tests.support.environments.models import content, entries_of
from tests.support.environments.oracle import named
from tests.support.environments.records import records_of, without_empty
from tests.support.environments.workload import State, Workload, open_env
from tests.support.harness import run

QUEUES = ("queue", "line")


def cleaned(seed: int, *, halted: bool, steps: int = 160) -> dict[str, bytes]:
    """A log with duplicates and queues, whose cleaner has deleted most files."""
    source, storage, workload = random.Random(seed), MemoryStorage(), Workload(seed, keys=50)
    env = open_env(storage)
    workload.start(env)
    waiting: dict[str, list[bytes]] = {name: [] for name in QUEUES}
    for name in QUEUES:
        env.create_database(name, DatabaseOptions(name == "line", False, 6)).close()
    for step in range(steps):
        workload.step(env)
        name = source.choice(QUEUES)
        with env.begin() as txn, env.open_database(name) as db:
            for at in range(source.randrange(6)):
                key = b"%06d-%d" % (step, at)
                db.put(key, b"x" * source.choice((0, 8, 40)), txn)
                waiting[name].append(key)
            for key in waiting[name][: source.randrange(6)]:
                waiting[name].remove(key)
                db.delete(key, txn)
        if not step % 20:
            env.compress()
            env.clean_log()
            env.checkpoint(force=True)
            env.checkpoint(force=True)
    if not halted:
        env.close()
    else:
        env.sync()
    return {name: content(storage, name) for name in storage.names() if name.endswith(".jdb")}


@pytest.fixture
def from_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovery is not asked: everything comes from the log."""
    monkeypatch.setattr("engine.rescue.salvage.sources.recover_whole", lambda *_: ("not asked", 0))


@pytest.mark.usefixtures("from_the_log")
@pytest.mark.parametrize("seed", range(6))
def test_the_log_of_a_cleaner_says_what_recovery_says(seed: int, tmp_path: Path) -> None:
    env = write(cleaned(seed, halted=bool(seed % 2)), tmp_path / "env")
    numbers = sorted(int(path.name[:8], 16) for path in env.glob("*.jdb"))
    assert len(numbers) < numbers[-1] // 2
    said, found = records_of(env), Found(env)
    assert found.records == without_empty(said)
    assert not found.lost
    assert not found.doubt
    assert {found_db.db.name for found_db in found.databases} == set(said)


CLEANED_BY_JE = ("je-18.3.20/cleaned", "je-18.3.20/cleaned-closed", "je-25.3.17/cleaned", "je-7.5.11/cleaned",
                 "je-7.3.8/cleaned", "je-3.3.98/cleaned")  # fmt: skip


@pytest.mark.usefixtures("from_the_log")
@pytest.mark.parametrize("name", CLEANED_BY_JE)
def test_logs_that_je_cleaned(name: str) -> None:
    env = named(name).path / "env"
    found = Found(env)
    assert found.records == without_empty(records_of(env))
    assert not found.lost
    assert not found.doubt


@pytest.mark.usefixtures("from_the_log")
@pytest.mark.parametrize("seed", range(4))
def test_damage_takes_little(seed: int, tmp_path: Path) -> None:
    """Flipped bits: what is not given is lost by name, or stood in the damage."""
    files, source = cleaned(seed, halted=False), random.Random(seed)
    state = without_empty(records_of(write(files, tmp_path / "whole")))
    whole = sum(map(len, state.values()))
    for at in range(6):
        spoiled = {name: bytearray(data) for name, data in files.items()}
        data = spoiled[source.choice(sorted(spoiled))]
        data[source.randrange(40, len(data))] ^= 1 << source.randrange(8)
        found = Found(write({name: bytes(data) for name, data in spoiled.items()}, tmp_path / f"e{at}"))
        given = sum(
            found.records.get(name, {}).get(key) == data
            for name, records in state.items() for key, data in records.items()
        )  # fmt: skip
        assert given > 0.9 * whole


@pytest.mark.usefixtures("from_the_log")
@pytest.mark.parametrize("name", ["dups", "schema-crash", "txn-crash", "torn-base", "multi-ckpt"])
def test_old_duplicates(name: str) -> None:
    """Log version 6: an LN without data deletes the item that a main key has."""
    env = named(f"je-3.3.98/{name}").path / "env"
    found = Found(env)
    assert found.records == without_empty(records_of(env))
    assert not found.lost


OLD = ("je-3.3.98/corrupt-middle", "je-7.5.11/corrupt-middle")


@pytest.mark.parametrize("name", OLD)
def test_names_until_log_version_15(name: str) -> None:
    """The name is in the NameLN; JE's own databases are no data."""
    env, whole = named(name).path / "env", named(name.replace("corrupt-middle", "torn-base")).path / "env"
    found = Found(env)
    assert {database.db.name for database in found.databases} == set(records_of(whole))
    assert not found.lost


@pytest.mark.usefixtures("from_the_log")
def test_an_open_truncation_keeps_the_name() -> None:
    env = named("je-18.3.20/schema-crash").path / "env"
    found = Found(env)
    assert found.records == without_empty(records_of(env))


def without_group(env: Path) -> None:
    """Damage all records that name the group."""
    for entry in entries_of(DiskStorage(str(env))):
        if GROUP_KEY_BYTES in entry.body:
            flip(env, entry)


@pytest.mark.usefixtures("from_the_log")
@pytest.mark.parametrize("start", ["je-18.3.20/ha-group", "je-7.5.11/ha-group", "je-25.3.17/ha-rollback"])
def test_nodes_belong_together_by_their_stream(start: str, tmp_path: Path) -> None:
    envs = [corpus.copy(named(f"{start}/node{at}").path / "env", tmp_path / f"node{at}") for at in (1, 2, 3)]
    said = records_of(envs[0])
    for env in envs[1:]:
        without_group(env)
    assert look_at(str(envs[1])).survey.group is None
    stranger = named("je-18.3.20/ha-rollback-thrice/node1").path / "env"
    sources = sources_of([look_at(str(env)) for env in [*envs, stranger]])
    assert [len(source.nodes) for source in sources] == [3, 1]
    assert Found(*envs).records == without_empty(said)


def spoiled(tmp_path: Path, gone: Callable[[Path], int]) -> tuple[Path, State, int]:
    """JE's log without a file; its records before, and the number of the file."""
    env = corpus.copy(named("je-18.3.20/cleaned-closed").path / "env", tmp_path / "env")
    state = records_of(env)
    number = gone(env)
    (env / f"{number:08x}.jdb").unlink()
    return env, state, number


def file_of_bins(env: Path) -> int:
    """The first file with a BIN."""
    return file_of(next(entry.lsn for entry in entries_of(DiskStorage(str(env))) if entry.type_number == BIN_TYPE))


def test_a_needed_file_is_counted_even_before_the_first(tmp_path: Path) -> None:
    """``info``, ``salvage`` and ``missing`` say that it is missing, and what is lost with it."""
    env, state, number = spoiled(tmp_path, file_of_bins)
    report = find_missing(DiskStorage(str(env)), str(env))
    assert [file.number for file in report.files if file.state == MISSING] == [number]
    assert all(file.state == CLEANED for file in report.files if file.number != number)
    info = run("info", env, "--json")
    assert (info.code, info.json()["missing_files"] > 0) == (1, True)
    saved = run("salvage", env, "--to", tmp_path / "to", "-n", "--json").json()
    assert saved["environments"][0]["missing_files"] > 0
    records = sum(map(len, state.values()))
    lost = saved["lost"] + saved["lost_below"]
    assert saved["records"] <= records
    assert saved["lost_nodes"] == len(report.subtrees)
    assert abs(records - saved["records"] - lost + saved["stood_in"]) <= records / 10


def test_a_first_file_that_was_needed(tmp_path: Path) -> None:
    """Recovery refuses: the trees are walked beside what is gone."""
    env = tmp_path / "env"
    config = EnvironmentConfig(create=True, file_max_bytes=1_000_000)
    with Environment(env, config) as made:
        with made.create_database("small") as db:
            db.put(b"k", b"v")
        # Its MapLN stays in the first file.
        made.checkpoint(force=True)
        with made.create_database("orders") as db:
            for at in range(9000):
                db.put(b"%08d" % at, b"x" * 150)
        made.checkpoint(force=True)
    (env / "00000000.jdb").unlink()
    report = find_missing(DiskStorage(str(env)), str(env))
    assert report.problem
    assert [(file.number, file.state) for file in report.files] == [(0, MISSING)]
    orders = [one for one in report.subtrees if one.db == "orders"]
    found: Any = run("salvage", env, "--to", tmp_path / "to", "-n", "--json").json()
    gone = 9000 - found["records"]
    named_or_below = sum(one.records for one in orders) + sum(key.db == "orders" for key in report.keys)
    assert orders
    assert abs(named_or_below - gone) < 0.05 * gone
    assert abs(found["lost"] + found["lost_below"] - gone) < 0.05 * gone
    assert found["lost_databases"] == list(report.databases)
    assert len(report.databases) == 1
    assert found["environments"][0]["missing_files"] == 1
    assert run("info", env, "--json").json()["missing_files"] == 1


def test_damage_on_the_way_to_recovery_is_no_missing_file(tmp_path: Path) -> None:
    """Not every old slot of the log counts: the trees tell what was cleaned."""
    files = cleaned(3, halted=True)
    refused = 0
    nodes = [one for one in entries_of(MemoryStorage(files)) if one.type_number in NODES or one.type_number in MAP_LNS]
    for at, entry in enumerate(nodes[-40:]):
        env = write(files, tmp_path / f"e{at}")
        flip(env, entry)
        report = find_missing(DiskStorage(str(env)), str(env))
        # What the flip took is damaged, not missing.
        assert not [file for file in report.files if file.state == MISSING]
        assert not report.keys
        assert not report.subtrees
        refused += not report.walked
    assert refused > 0


def test_a_record_of_a_nameless_database_of_je_is_good(tmp_path: Path) -> None:
    """Until v15 a lost NameLN leaves ``_jeUtilization`` without a name; its records are what they are."""
    env = corpus.copy(named("je-7.5.11/cleaned").path / "env", tmp_path / "env")
    names = [entry for entry in entries_of(DiskStorage(str(env))) if entry.type_number in NAME_LNS]
    for entry in names:
        record = entry.record()
        if isinstance(record, LN) and record.key == b"_jeUtilization":
            flip(env, entry)
    done = run("verify", env, "--refs", "--json")
    assert done.code == 1
    assert "JE-REF-003" not in done.text
