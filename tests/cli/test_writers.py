"""``create``, ``put``, ``delete``, ``load``, ``checkpoint``: what they write, and what they refuse."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from engine.db.environment import Environment as Engine
from tests.support.environments.copies import copy_of, expected_dumps, state_of
from tests.support.environments.oracle import Environment, environments, named
from tests.support.harness import assert_valid, run, spawn
from tests.support.logs.golden_logs import GOLDEN


@pytest.fixture
def env(tmp_path: Path) -> Path:
    path = tmp_path / "env"
    assert run("create", path, "--db", "orders", "--db", "tags:dups", "--node-max", "8").code == 0
    return path


def records(env: Path, name: str) -> list[tuple[bytes, bytes]]:
    rows = run("scan", env, "--db", name, "--json").json()["records"]
    return [(bytes.fromhex(row["key"]), bytes.fromhex(row["data"])) for row in rows]


def test_create(tmp_path: Path) -> None:
    path = tmp_path / "made"
    words = ("create", path, "--db", "a", "--db", "b:dups", "--db", "c:prefix", "--file-max", "1000000", "--json")
    dry = run(*words, "-n")
    assert dry.json()["dry_run"] is True
    assert not path.exists()
    result = run(*words)
    assert_valid("create", result.out)
    assert {**dry.json(), "dry_run": False} == result.json()
    rows = {row["name"]: row for row in run("dbs", path, "--json").json()["records"]}
    assert [rows[name]["duplicates"] for name in "abc"] == [False, True, False]
    assert [rows[name]["key_prefixing"] for name in "abc"] == [False, True, True]
    assert (path / "je.properties").read_text() == "je.log.fileMax=1000000\n"
    assert run("info", path, "--json").json()["closed_cleanly"] is True


@pytest.mark.parametrize("more", [(), ("--replicated", "--group", "shop", "--node", "n1")])
def test_create_in_a_later_version(tmp_path: Path, more: tuple[str, ...]) -> None:
    """The version stays: in what is put and loaded, and after a crash."""
    env, crashed = tmp_path / "env", tmp_path / "crashed"
    made = run("create", env, "--db", "d", "--log-version", "26", *more, "--json")
    assert made.json()["log_version"] == 26
    (tmp_path / "rows.csv").write_text("k,v\n" + "".join(f"{number:03d},{number}\n" for number in range(50)))
    assert run("load", env, tmp_path / "rows.csv", "--db", "d", "--key", "k", "--engine", "local").code == 0
    assert run("put", env, "late", "1", "--db", "d", "--no-commit").code == 0
    assert run("crash", env, "--at", "end", "--out", crashed).code == 0
    for path in (env, crashed):
        assert run("recover", path).code == 0
        assert run("verify", path, "--full").code == 0
        assert len(records(path, "d")) == 50
        assert [one["version"] for one in run("info", path, "--json").json()["log_versions"]] == [26]


@pytest.mark.parametrize("version", ["16", "27"])
def test_create_refuses_a_version_that_cannot_be_made(tmp_path: Path, version: str) -> None:
    refused = run("create", tmp_path / "env", "--db", "d", "--log-version", version)
    assert refused.code == 2
    assert "17<=x<=26" in refused.err
    assert not (tmp_path / "env").exists()


def test_create_refuses_a_directory_that_holds_something(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    before = state_of(tmp_path)
    result = run("create", tmp_path)
    assert result.code == 3
    assert "not empty" in result.err
    assert state_of(tmp_path) == before


def test_put_and_delete(env: Path) -> None:
    result = run("put", env, "k1", "v1", "--db", "orders", "--json")
    assert_valid("put", result.out)
    assert result.json()["commit_lsn"]
    run("put", env, "0x00ff", "0x0102", "--db", "orders")
    assert records(env, "orders") == [(b"\x00\xff", b"\x01\x02"), (b"k1", b"v1")]
    assert run("put", env, "k1", "v2", "--db", "orders", "--no-overwrite").code == 3
    assert run("put", env, "k1", "v3", "--db", "orders").code == 0
    assert run("get", env, "k1", "--db", "orders", "--json").json()["records"][0]["data"] == b"v3".hex()
    deleted = run("delete", env, "k1", "--db", "orders", "--json")
    assert_valid("delete", deleted.out)
    assert deleted.json()["records"] == 1
    assert run("delete", env, "k1", "--db", "orders").code == 4
    assert records(env, "orders") == [(b"\x00\xff", b"\x01\x02")]
    history = run("history", env, "k1", "--db", "orders", "--format", "ndjson").lines()[:-1]
    assert [(line["fate"], line["deleted"]) for line in history] == [
        ("committed", False), ("committed", False), ("committed", True),
    ]  # fmt: skip


def test_duplicates(env: Path) -> None:
    for item in ("blue", "red", "green"):
        assert run("put", env, "k", item, "--db", "tags").code == 0
    assert [data for _, data in records(env, "tags")] == [b"blue", b"green", b"red"]
    assert run("delete", env, "k", "--db", "tags", "--data", "red", "--json").json()["records"] == 1
    assert run("delete", env, "k", "--db", "tags", "--json").json()["records"] == 2
    assert records(env, "tags") == []


def test_an_open_transaction_is_undone(env: Path) -> None:
    run("put", env, "k1", "kept", "--db", "orders")
    left = run("put", env, "k1", "lost", "--db", "orders", "--no-commit", "--json").json()
    assert left["commit_lsn"] is None
    (line,) = run("txns", env, "--fate", "open", "--json").json()["records"]
    assert line["txn"] == left["txn"]
    assert records(env, "orders") == [(b"k1", b"kept")]
    assert run("put", env, "k2", "next", "--db", "orders").code == 0
    assert records(env, "orders") == [(b"k1", b"kept"), (b"k2", b"next")]


@pytest.mark.parametrize(
    "words",
    [
        ("put", "ENV", "k1", "v2", "--db", "orders"),
        ("put", "ENV", "k1", "v2", "--db", "orders", "--no-commit"),
        ("delete", "ENV", "k1", "--db", "orders"),
        ("checkpoint", "ENV"),
        ("load", "ENV", "DUMP", "--db", "new", "--create"),
    ],
)
def test_a_dry_run_changes_nothing(env: Path, tmp_path: Path, words: tuple[Any, ...]) -> None:
    run("put", env, "k1", "v1", "--db", "orders", "--no-commit")
    run("put", env, "k1", "v1", "--db", "orders")
    (tmp_path / "dump").write_bytes(run("dump", env, "--db", "orders").out)
    (env / "je.lck").unlink()
    before = state_of(tmp_path)
    words = tuple({"ENV": env, "DUMP": tmp_path / "dump"}.get(word, word) for word in words)
    result = run(*words, "-n", "--json")
    assert result.code == 0, result.err
    assert result.json()["dry_run"] is True
    assert state_of(tmp_path) == before
    done = run(*words, "--json").json()
    assert {name for name, value in done.items() if value != result.json()[name]} == {"dry_run"}


def test_checkpoint(env: Path) -> None:
    for number in range(20):
        run("put", env, f"k{number}", "v", "--db", "orders", "--no-commit" if number == 19 else "-q")
    result = run("checkpoint", env, "--json")
    assert_valid("checkpoint", result.out)
    found = result.json()
    assert found["recovered"] is True
    entries = run("dump-log", env, "--from", found["ckpt_start_lsn"], "--format", "ndjson").lines()[:-1]
    assert entries[0]["type"] == "CkptStart"
    assert [entry["lsn"] for entry in entries if entry["type"] == "CkptEnd"] == [found["ckpt_end_lsn"]]
    counted = sum(level[name] for level in found["levels"] for name in ("no", "yes", "before_ckpt_end"))
    assert counted == found["ins"] + found["bins"] + found["deltas"]
    assert counted == sum(entry.get("level") is not None for entry in entries)
    assert found["interval_before"] > 0
    assert run("checkpoint", env, "--json").json()["recovered"] is False


@pytest.mark.parametrize(
    "environment", environments("18.3.20", cases=("txn-crash", "dups", "multi-ckpt", "plain-load"))
)
def test_load_is_the_inverse_of_dump(environment: Environment, tmp_path: Path) -> None:
    env = tmp_path / "env"
    run("create", env)
    for name, data in expected_dumps(environment).items():
        (tmp_path / "dump").write_bytes(data)
        result = run("load", env, tmp_path / "dump", "--db", name, "--create", "--batch", "100", "--json")
        assert result.code == 0, result.err
        assert_valid("load", result.out)
        assert run("dump", env, "--db", name).out == data
        printable = run("dump", env, "--db", name, "-p").out
        (tmp_path / "dump").write_bytes(printable)
        assert run("load", env, tmp_path / "dump", "--db", f"{name}2", "--create").code == 0
        assert run("dump", env, "--db", f"{name}2").out == data


HEADER = "VERSION=3\nformat=print\ntype=btree\ndupsort=0\nHEADER=END\n"


@pytest.mark.parametrize(
    ("text", "code", "message", "loaded"),
    [
        (f"{HEADER} a\n b\nDATA=END\n", 0, "", 1),
        (f"{HEADER} a\n b\n c\n d\n", 7, "no DATA=END", 0),
        (f"{HEADER} a\n b\n c\n", 7, "key without data", 0),
        (f"{HEADER} a\\zz\n b\nDATA=END\n", 7, "line 6", 0),
        (HEADER.replace("print", "bytevalue") + " abc\n 00\nDATA=END\n", 7, "hex digits", 0),
        (HEADER.replace("VERSION=3", "VERSION=4"), 7, "version", 0),
        ("colour=blue\n", 7, "", 0),
        ("no header at all\n", 5, "line 1 is no header", 0),
        ("", 5, " is empty; nothing was loaded", 0),
        (HEADER.replace("dupsort=0", "dupsort=1") + "DATA=END\n", 2, "dupsort", 0),
    ],
)
def test_dumps_that_are_not_whole(env: Path, tmp_path: Path, text: str, code: int, message: str, loaded: int) -> None:
    (tmp_path / "dump").write_text(text)
    result = run("load", env, tmp_path / "dump", "--db", "orders")
    assert result.code == code, result.err
    assert message in result.err
    assert len(records(env, "orders")) == loaded


def test_header_lines_on_the_command_line(env: Path, tmp_path: Path) -> None:
    """As DbLoad of JE 18.3.20: -c counts with -T and where the header says nothing; -I passes over unknown lines."""
    plain, dump = tmp_path / "plain", tmp_path / "dump"
    plain.write_text("k\n1\nk\n2\n")
    assert run("load", env, plain, "--db", "pairs", "--create", "-T", "-c", "dupsort=1").code == 0
    assert records(env, "pairs") == [(b"k", b"1"), (b"k", b"2")]
    assert run("load", env, plain, "--create", "-T", "-c", "dupsort=0", "-c", "Database=named").code == 0
    assert records(env, "named") == [(b"k", b"2")]
    dump.write_text(f"{HEADER} k\n 1\n k\n 2\nDATA=END\n")
    assert run("load", env, dump, "--db", "header", "--create", "-c", "dupsort=1").code == 0
    assert records(env, "header") == [(b"k", b"2")]
    dump.write_text(f"{HEADER.replace('dupsort=0', 'keys=1')} k\n 1\n k\n 2\nDATA=END\n")
    refused = run("load", env, dump, "--db", "silent", "--create", "-c", "dupsort=1")
    assert (refused.code, "unknown header keyword keys" in refused.err) == (7, True)
    assert run("load", env, dump, "--db", "silent", "--create", "-c", "dupsort=1", "-I").code == 0
    assert records(env, "silent") == [(b"k", b"1"), (b"k", b"2")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-c", "dupsort"), "no NAME=VALUE"),
        (("-c", "dupsort=2"), "dupsort cannot be '2'"),
        (("-c", "keys=1"), "not a header line of a dump"),
        (("-c", "dupsort=1", "--input-format", "csv"), "go with a JE dump"),
        (("-I", "--input-format", "csv"), "go with a JE dump"),
    ],
)
def test_header_lines_that_are_refused(env: Path, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    (tmp_path / "plain").write_text("k\n1\n")
    result = run("load", env, tmp_path / "plain", "--db", "orders", *words)
    assert (result.code, message in result.err) == (2, True), result.err


def test_whole_batches_stay_when_a_line_is_bad(env: Path, tmp_path: Path) -> None:
    lines = "".join(f" k{number}\n v\n" for number in range(25))
    (tmp_path / "dump").write_text(f"{HEADER}{lines} bad\\zz\n v\nDATA=END\n")
    result = run("load", env, tmp_path / "dump", "--db", "orders", "--batch", "10")
    assert result.code == 7
    assert "20 records were loaded before it" in result.err
    assert len(records(env, "orders")) == 20


def test_rejected_records_are_counted(env: Path, tmp_path: Path) -> None:
    run("put", env, "a", "old", "--db", "orders")
    (tmp_path / "dump").write_text("a\nnew\nb\nnew\n")
    result = run("load", env, tmp_path / "dump", "--db", "orders", "-T", "--no-overwrite", "--json")
    assert result.code == 1
    assert (result.json()["records"], result.json()["rejected"]) == (1, 1)
    assert records(env, "orders") == [(b"a", b"old"), (b"b", b"new")]


def test_the_lock_excludes_and_can_be_waited_for(env: Path) -> None:
    with Engine(str(env)):
        started = time.monotonic()
        result = spawn("put", env, "k", "v", "--db", "orders", "--lock-timeout", "0.3")
        assert time.monotonic() - started >= 0.3
    assert result.returncode == 3
    assert b"in use" in result.stderr
    assert spawn("put", env, "k", "v", "--db", "orders").returncode == 0


def test_replicated_environments_are_not_changed_here(tmp_path: Path) -> None:
    env = copy_of(named("je-18.3.20/ha-group/node1"), tmp_path / "env")
    assert run("put", env, "k", "v", "--db", "epochDB").code == 3


def test_committed_work_behind_damage_stops_a_writer(tmp_path: Path) -> None:
    env = copy_of(named("je-18.3.20/corrupt-middle"), tmp_path / "env")
    before = {path.name: path.read_bytes() for path in env.glob("*.jdb")}
    result = run("put", env, "k", "v", "--db", "accounts")
    assert result.code == 3
    assert "committed transactions" in result.err
    assert {path.name: path.read_bytes() for path in env.glob("*.jdb")} == before


def test_bytes_that_recovery_cuts_off_are_saved(tmp_path: Path) -> None:
    env = copy_of(named("je-18.3.20/torn-garbage-tail"), tmp_path / "env")
    result = run("put", env, "k", "v", "--db", "accounts", "--backup-dir", tmp_path / "saved")
    assert result.code == 0
    assert "saved in" in result.err
    assert (tmp_path / "saved" / "saved.journal").stat().st_size > 0
    assert (tmp_path / "saved" / "manifest.json").exists()


def test_a_group_of_one_is_written_to(tmp_path: Path) -> None:
    env = tmp_path / "env"
    created = run("create", env, "--replicated", "--group", "G", "--node", "n1", "--address", "h:1", "--db", "users")
    assert created.code == 0
    assert run("put", env, "a", "1", "--db", "users").code == 0
    assert run("put", env, "b", "2", "--db", "users", "--no-commit").code == 0
    assert run("recover", env).code == 0
    assert run("checkpoint", env).code == 0
    assert run("delete", env, "a", "--db", "users").code == 0
    assert records(env, "users") == []
    entries = [json.loads(line) for line in run("dump-log", env, "--replicated", "--format", "ndjson").out.splitlines()]
    stream = [(e["type"], e["vlsn"], e["txn"]) for e in entries if e["rec"] == "entry"]
    assert stream[-6:] == [
        ("INS_LN_TX", 14, -17), ("Commit", 15, -17), ("INS_LN_TX", 16, -18), ("Abort", 17, -18),
        ("DEL_LN_TX", 18, -19), ("Commit", 19, -19),
    ]  # fmt: skip
    commits = [e for e in entries if e["rec"] == "entry" and e["type"] == "Commit"]
    assert [e["dtvlsn"] for e in commits] == [2, 4, 7, 9, 11, 13, 15, 19]


def test_a_log_of_a_later_version_is_continued(tmp_path: Path) -> None:
    """Puts, deletions, checkpoints, a crash and recovery in what JE 25.3.17 wrote; a copy of its records is of 17."""
    env = tmp_path / "env"
    shutil.copytree(GOLDEN / "je-26" / "txn-crash", env)
    before = records(env, "accounts")
    assert run("put", env, "new", "1", "--db", "accounts").code == 0
    assert run("put", env, "gone", "2" * 50, "--db", "accounts").code == 0
    assert run("checkpoint", env).code == 0
    assert run("delete", env, "gone", "--db", "accounts").code == 0
    assert run("put", env, "lost", "3", "--db", "accounts", "--no-commit").code == 0
    assert run("recover", env).code == 0
    assert records(env, "accounts") == sorted([*before, (b"new", b"1")])
    assert run("verify", env, "--full").code == 0
    assert {entry["version"] for entry in all_entries(env)} == {26}
    copied = tmp_path / "copied"
    assert run("create", copied).code == 0
    (tmp_path / "dump").write_bytes(run("dump", env, "--db", "accounts").out)
    assert run("load", copied, tmp_path / "dump", "--db", "accounts", "--create").code == 0
    assert records(copied, "accounts") == records(env, "accounts")
    assert {entry["version"] for entry in all_entries(copied)} == {17}


def all_entries(env: Path) -> list[dict[str, Any]]:
    lines = run("dump-log", env, "--format", "ndjson").out.splitlines()
    return [row for row in map(json.loads, lines) if row["rec"] == "entry"]


@pytest.mark.parametrize("address", ["5001", "host", "host:0", "host:65536", ":1", "host:-1"])
def test_addresses_of_nodes_are_checked(tmp_path: Path, address: str) -> None:
    assert run("create", tmp_path / "env", "--replicated", "--address", address).code == 2
    assert run("create", tmp_path / "env", "--replicated", "--group", "").code == 2
    assert not (tmp_path / "env").exists()
