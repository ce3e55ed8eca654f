"""``jetool fleet salvage``: as much as there is, nothing that was never committed, and what is lost."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from engine import Environment, EnvironmentConfig
from engine.format.lsn import file_of, offset_of
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.scan import scan_log
from engine.storage.disk import DiskStorage
from tests.support.corpus import copy
from tests.support.environments.frontends import write_cut_frontend
from tests.support.harness import assert_valid, run
from tests.support.tools import needs

Records = dict[tuple[str, bytes, bytes], None]


def records_of(env: Path) -> Records:
    """The records of an environment by recovery: database, key, data."""
    with Environment(str(env), EnvironmentConfig(read_only=True)) as opened:
        found: Records = {}
        for name in opened.database_names():
            with opened.open_database(name) as db:
                found |= {(name, key, data): None for key, data in db.items()}
        return found


def salvaged(to: Path, *envs: Path | str, code: int) -> tuple[dict[str, Any], Records, list[Any]]:
    needs("Spark")
    import pyarrow.parquet as pq

    done = run("fleet", "salvage", *envs, "--to", to, "--json")
    assert done.code == code, done.err
    assert_valid("fleet salvage", done.out)
    rows, lost = (
        [row for path in sorted((to / name).glob("part-*")) for row in pq.read_table(path).to_pylist()]
        for name in ("records", "lost")
    )
    result = done.json()
    assert result["records"] == len(rows)
    assert result["lost"] == len(lost)
    return result, {(row["db"], row["key"], row["data"]): None for row in rows}, lost


@pytest.fixture
def fixtures(corpus: Path) -> Path:
    return corpus / "je/je-18.3.20"


def copied(env: Path, to: Path) -> Path:
    copy(env, to)
    return to


def flip(env: Path, lsn: int) -> None:
    """Damage the body of an entry."""
    path = env / f"{file_of(lsn):08x}.jdb"
    data = bytearray(path.read_bytes())
    data[offset_of(lsn) + 24] ^= 0x10
    path.write_bytes(bytes(data))


def entries(env: Path) -> list[LogEntry]:
    storage = DiskStorage(str(env))
    return list(scan_log(storage, list_log_files(storage), marker=True).good_entries())


def test_sound_environments_give_what_recovery_gives(fixtures: Path, tmp_path: Path) -> None:
    names = ("txn-crash", "dups", "torn-cut-mid")
    for name in names:
        result, found, lost = salvaged(tmp_path / name, fixtures / name / "env", code=0)
        assert found == records_of(fixtures / name / "env"), name
        assert not lost
        assert result["sources"][0]["from"] == "tree"


def test_what_records_mean_stands_beside_them(tmp_path: Path) -> None:
    env = tmp_path / "env"
    env.mkdir()
    write_cut_frontend(env)
    done = run("fleet", "salvage", env, "--to", tmp_path / "s", "--decode", "auto", "--as", "json")
    assert done.code == 6, done.err
    lines = [line for path in (tmp_path / "s/records").glob("*.json") for line in path.read_text().splitlines()]
    rows = [row for row in map(json.loads, lines) if row["db"] == "1"]
    assert [json.loads(row["decoded_key"]) for row in rows] == [{"id": number} for number in range(1, 21)]
    assert {(json.loads(row["decoded_data"])["op"], row["known"]) for row in rows} == {
        (100, True),
        (1, True),
        (126, True),
        (70, True),
    }


def test_commits_behind_damage_are_saved(fixtures: Path, tmp_path: Path) -> None:
    """The base without damage has one record that the damaged log cannot have."""
    _, found, _ = salvaged(tmp_path / "s", fixtures / "corrupt-middle/env", code=6)
    whole = records_of(fixtures / "torn-base/env")
    recovered = records_of(fixtures / "corrupt-middle/env")
    assert len(found) == 339
    assert set(found) - set(whole) == set()
    assert len(set(whole) - set(found)) == 1
    assert len(recovered) < len(found)


@pytest.mark.parametrize("name", ["corrupt-older-file", "missing-file"])
def test_logs_that_je_refuses(fixtures: Path, tmp_path: Path, name: str) -> None:
    """What is found was committed; what is missing lies in the damage."""
    result, found, _ = salvaged(tmp_path / "s", fixtures / name / "env", code=6)
    whole = records_of(fixtures / "torn-base/env")
    assert result["sources"][0]["from"] == "log"
    kept = set(found) & set(whole)
    # One deletion in the damage brings one record back; a file of 12 kB holds some tenth of the records.
    assert len(set(whole) - kept) <= (0 if name == "corrupt-older-file" else 70)
    assert len(set(found) - set(whole)) <= (1 if name == "corrupt-older-file" else 30)


def test_a_lost_record_is_named_and_an_older_one_stands_in(tmp_path: Path) -> None:
    env = tmp_path / "env"
    env.mkdir()
    with Environment(str(env), EnvironmentConfig(create=True)) as opened, opened.create_database("d") as db:
        for key in (b"a", b"b", b"c"):
            with opened.begin() as txn:
                db.put(key, b"old " + key * 40, txn)
        opened.checkpoint(force=True)
        with opened.begin() as txn:
            db.put(b"b", b"new " + b"b" * 40, txn)
        with opened.begin() as txn:
            db.put(b"d", b"only " + b"d" * 40, txn)
        with opened.begin() as txn:
            db.delete(b"c", txn)
    with Environment(str(env)) as opened, opened.open_database("d") as db, opened.begin() as txn:
        db.put(b"z", b"behind" * 10, txn)
    for item in entries(env):
        if item.type_name in ("UPD_LN_TX", "INS_LN_TX") and (b"new " in item.body or b"only " in item.body):
            flip(env, item.lsn)
    result, found, lost = salvaged(tmp_path / "s", env, code=6)
    assert {key: data[:4] for _, key, data in found} == {b"a": b"old ", b"b": b"old ", b"z": b"behi"}
    assert {row["key"]: row["stood_in"] for row in lost} == {b"b": True, b"d": False}
    assert result["stood_in"] == 1
    assert {row["reason"] for row in lost} == {"the newest version cannot be read"}


def test_what_did_not_commit_is_not_saved(tmp_path: Path) -> None:
    env = tmp_path / "env"
    env.mkdir()
    opened = Environment(str(env), EnvironmentConfig(create=True))
    db = opened.create_database("d")
    with opened.begin() as txn:
        db.put(b"kept", b"k" * 50, txn)
    aborted = opened.begin()
    db.put(b"aborted", b"a" * 50, aborted)
    aborted.abort()
    db.put(b"open", b"o" * 50, opened.begin())
    with opened.begin() as txn:
        db.put(b"damaged", b"x" * 50, txn)
    with opened.begin() as txn:
        db.put(b"last", b"l" * 50, txn)
    opened.sync()
    opened.engine.crash()
    flip(env, next(item.lsn for item in entries(env) if b"damaged" in item.body))
    _, found, _ = salvaged(tmp_path / "s", env, code=6)
    assert {key for _, key, _ in found} == {b"kept", b"last"}


def test_a_node_has_what_another_lost(fixtures: Path, tmp_path: Path) -> None:
    """Two damaged nodes of a group, and one that recovers: together they are whole."""
    whole = records_of(fixtures / "ha-rollback/node3/env")
    nodes = [copied(fixtures / f"ha-rollback/node{number}/env", tmp_path / f"node{number}") for number in (1, 2, 3)]
    for number, node in enumerate(nodes[:2]):
        lns = [item for item in entries(node) if item.type_name == "INS_LN_TX" and item.vlsn > 0 and not item.invisible]
        flip(node, lns[60 + number].lsn)
    result, found, _ = salvaged(tmp_path / "s", *nodes, code=6)
    assert found == whole
    assert {source["from"] for source in result["sources"]} == {"tree", None}
    # Without the sound one, each of the damaged ones has what the other lost.
    _, found, _ = salvaged(tmp_path / "t", *nodes[:2], code=6)
    assert found == whole


def test_other_formats_and_refusals(fixtures: Path, tmp_path: Path) -> None:
    done = run("fleet", "salvage", fixtures / "corrupt-middle/env", "--to", tmp_path / "s", "--as", "json")
    assert done.code == 6
    lines = [line for path in (tmp_path / "s/records").glob("part-*") for line in path.read_text().splitlines()]
    assert len(lines) == 339
    assert set(json.loads(lines[0])) >= {"environment", "db", "key", "data", "from"}
    assert run("fleet", "salvage", fixtures / "empty/env", "--to", tmp_path / "s").code == 3
    assert run("fleet", "salvage", tmp_path / "none", "--to", tmp_path / "t", "--as", "json").code == 4
    assert not (tmp_path / "t").exists()
    assert not list(tmp_path.glob(".s*"))


CORPUS = ("corrupt-middle", "corrupt-older-file", "missing-file", "txn-crash", "dups", "rollback-four-periods",
          "ha-group/node1", "ha-group/node2", "schema-crash", "ttl")  # fmt: skip


def lines(paths: Iterable[Path]) -> list[dict[str, Any]]:
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def test_both_commands_save_the_same(fixtures: Path, tmp_path: Path) -> None:
    """Record for record, and what is lost and in doubt key for key."""
    envs = [copied(fixtures / name / "env", tmp_path / name.replace("/", "-")) for name in CORPUS]
    done = run("fleet", "salvage", *envs, "--to", tmp_path / "fleet", "--as", "json", "--json")
    alone = run("salvage", *envs, "--to", tmp_path / "alone", "--as", "ndjson", "--json")
    assert done.code == alone.code == 6
    assert {name: done.json()[name] for name in ("records", "lost", "stood_in", "in_doubt", "orphans")} == {
        name: alone.json()[name] for name in ("records", "lost", "stood_in", "in_doubt", "orphans")
    }

    def parts(name: str) -> list[dict[str, Any]]:
        return lines((tmp_path / "fleet" / name).glob("part-*"))

    def files(wanted: bool, name: str = "*") -> list[dict[str, Any]]:
        sides = ("lost", "doubt", "orphans", "skipped")
        return lines(path for path in (tmp_path / "alone").rglob(f"{name}.ndjson") if (path.stem in sides) != wanted)

    def by_key(rows: list[dict[str, Any]], key: str, data: str) -> list[tuple[str, ...]]:
        return sorted((row["source"], row["db"], row[key], row.get(data) or "", row.get("from", "")) for row in rows)

    assert by_key(parts("records"), "key", "data") == by_key(files(True), "key_hex", "data_hex")
    assert by_key(parts("doubt"), "key", "data") == by_key(files(False, "doubt"), "key_hex", "data_hex")
    assert len(parts("records")) > 1000
    assert len(parts("doubt")) > 0
