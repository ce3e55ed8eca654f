"""The verbs of records on page stores of our own, and ``crash`` on them and on real Derby databases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.derby_databases import FIVE, extract, state_of
from tests.cli.test_derby_recover import open_elsewhere
from tests.support.harness import assert_valid, run


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "pages"
    assert run("create", path, "--store", "derby", "--db", "orders", "--db", "users").code == 0
    return path


def records(store: Path, *options: str) -> list[tuple[bytes, bytes]]:
    rows = run("scan", store, "--db", "orders", "--json", *options).json()["records"]
    return [(bytes.fromhex(row["key"]), bytes.fromhex(row["data"])) for row in rows]


def put(store: Path, *words: str) -> dict[str, Any]:
    result = run("put", store, *words, "--db", "orders", "--json")
    assert result.code == 0, result.err
    assert_valid("put", result.out)
    found: dict[str, Any] = result.json()
    return found


def test_create(tmp_path: Path) -> None:
    path = tmp_path / "pages"
    words = ("create", path, "--store", "derby", "--db", "b", "--db", "a", "--file-max", "100000", "--json")
    dry = run(*words, "-n")
    assert not path.exists()
    made = run(*words)
    assert_valid("create", made.out)
    assert {**dry.json(), "dry_run": False} == made.json()
    assert made.json()["dbs"] == ["a", "b"]
    info = run("info", path, "--json").json()
    assert (info["store"], info["closed_cleanly"], info["bytes"]) == ("derby", True, 100_000)
    assert run("verify", path).code == 0
    listed = run("dbs", path, "--json", "--count")
    assert_valid("dbs", listed.out)
    assert [(row["name"], row["records"]) for row in listed.json()["records"]] == [("a", 0), ("b", 0)]
    assert run("create", path, "--store", "derby").code == 3


@pytest.mark.parametrize(
    "words",
    [
        ("--db", "a:dups"),
        ("--db", "a:prefix"),
        ("--node-max", "8"),
        ("--log-version", "26"),
        ("--replicated",),
        ("--file-max", "200000000"),
    ],
)
def test_what_a_store_does_not_have(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert run("create", tmp_path / "pages", "--store", "derby", *words).code == 2
    assert not (tmp_path / "pages").exists()


def test_put_get_delete_scan(store: Path) -> None:
    first = put(store, "k1", "v1")
    assert first["commit_end"] is not None
    put(store, "0x00ff", "0x0102")
    put(store, "k2", "v2")
    assert records(store) == [(b"\x00\xff", b"\x01\x02"), (b"k1", b"v1"), (b"k2", b"v2")]
    assert records(store, "--prefix", "k", "--reverse") == [(b"k2", b"v2"), (b"k1", b"v1")]
    assert records(store, "--from", "k1", "--to", "k1", "--limit", "1") == [(b"k1", b"v1")]
    assert run("put", store, "k1", "again", "--db", "orders", "--no-overwrite").code == 3
    assert run("get", store, "k1", "--db", "orders", "--json").json()["records"] == [{"key": "6b31", "data": "7631"}]
    before = state_of(store)
    assert run("get", store, "k9", "--db", "orders").code == 4
    assert run("get", store, "k1", "--db", "none").code == 4
    assert run("delete", store, "k9", "--db", "orders", "-n").code == 4
    assert run("delete", store, "k1", "--db", "orders", "-n").code == 0
    assert state_of(store) == before
    gone = run("delete", store, "k1", "--db", "orders", "--json")
    assert_valid("delete", gone.out)
    assert gone.json()["records"] == 1
    assert [key for key, _ in records(store)] == [b"\x00\xff", b"k2"]


def test_a_drill(store: Path) -> None:
    """Work in flight, the death of the process, recovery: the uncommitted record is gone."""
    put(store, "k1", "v1")
    left = put(store, "k2", "v2", "--no-commit")
    assert left["commit_end"] is None
    info = run("info", store, "--json").json()
    assert info["recovery"]["losers"] == [left["txn"]]
    assert records(store) == [(b"k1", b"v1")]
    recovered = run("recover", store, "--json").json()
    assert [one["transaction"] for one in recovered["undone"]] == [left["txn"]]
    assert recovered["undone"][0]["clrs"] == 2
    assert records(store) == [(b"k1", b"v1")]
    assert run("verify", store, "--strict").code == 0
    assert run("checkpoint", store).code == 0
    assert run("undo", store).code in (0, 3)


def test_dump_and_load(store: Path, tmp_path: Path) -> None:
    for number in range(30):
        put(store, f"k{number:02}", "x" * (number * 400))
    dumped = run("dump", store, "--db", "orders")
    assert dumped.out.startswith(b"VERSION=3\nformat=bytevalue\n")
    file = tmp_path / "orders.dump"
    file.write_bytes(dumped.out)
    loaded = run("load", store, file, "--db", "copy", "--create", "--batch", "7", "--json")
    assert_valid("load", loaded.out)
    assert (loaded.json()["records"], loaded.json()["transactions"]) == (30, 5)
    assert run("dump", store, "--db", "copy").out == dumped.out
    again = run("load", store, file, "--db", "copy", "--no-overwrite", "--json")
    assert (again.code, again.json()["rejected"]) == (1, 30)
    je = tmp_path / "je"
    run("create", je, "--db", "orders")
    assert run("load", je, file, "--db", "orders").code == 0
    assert run("dump", je, "--db", "orders").out == dumped.out
    file.write_bytes(dumped.out[:-12])
    cut = run("load", store, file, "--db", "cut", "--create", "--batch", "10")
    assert cut.code == 7
    assert "30 records were loaded before it" in cut.err
    assert run("load", store, file, "--db", "absent").code == 4


@pytest.mark.parametrize("mode", ["lost-tail", "no-fsync", "torn-write"])
def test_crash_matrix(store: Path, mode: str) -> None:
    put(store, "k1", "v1")
    put(store, "k2", "v2", "--no-commit")
    result = run("crash", store, "--matrix", "all", "--mode", mode, "--json")
    assert result.code == 0, result.out
    assert_valid("crash", result.out)
    found = result.json()
    assert found["summary"]["cases"] == len(found["records"]) > 15
    steps = {"checkpoint.clean", "checkpoint.log", "checkpoint.control"}
    assert steps <= {row["step"] for row in found["records"]}


def test_crash_matrix_of_a_real_database(tmp_path: Path) -> None:
    database = extract(FIVE, tmp_path)
    before = state_of(database)
    assert run("crash", database, "--matrix", "12", "--mode", "no-fsync").code == 0
    assert state_of(database) == before


@pytest.mark.parametrize("place", ["end", "entry:2", "type:insert:1", "write:9", "step:checkpoint.log"])
def test_crash_on_a_copy(store: Path, tmp_path: Path, place: str) -> None:
    put(store, "k1", "v1")
    put(store, "k2", "v2", "--no-commit")
    before = state_of(store)
    out = tmp_path / "out"
    words = ("crash", store, "--at", place, "--mode", "torn-write", "--out", out)
    assert run(*words, "-n").code == 0
    assert not out.exists()
    made = run(*words, "--json")
    assert_valid("crash", made.out)
    assert state_of(store) == before
    assert run("recover", out).code == 0
    assert records(out) == [(b"k1", b"v1")]
    assert run("verify", out).code == 0
    assert run(*words).code == 3


def test_crash_in_place_and_back(store: Path) -> None:
    put(store, "k1", "v1")
    put(store, "k2", "v2", "--no-commit")
    before = {path: state[2] for path, state in state_of(store).items()}
    assert run("crash", store, "--in-place").code == 3
    assert run("crash", store, "--in-place", "--yes", "--mode", "bit-flip").code == 0
    assert {path: state[2] for path, state in state_of(store).items()} != before
    assert run("undo", store).code == 0
    assert {path: state[2] for path, state in state_of(store).items()} == before


def test_places_and_modes_that_do_not_exist(store: Path) -> None:
    put(store, "k2", "v2", "--no-commit")
    for place, code in (("1,24", 4), ("entry:x", 2), ("nowhere", 2), ("type:Split", 4), ("write:0", 4)):
        assert run("crash", store, "--at", place, "-n").code == code, place
    assert run("crash", store, "--at", "write:3", "--mode", "bit-flip", "-n").code == 2
    assert run("crash", store, "--matrix", "3", "--mode", "bit-flip").code == 2


def test_a_store_that_another_process_has_open(store: Path) -> None:
    """Writers are refused and name the process; readers go on with a note."""
    put(store, "k1", "v1")
    before = {path: state[2] for path, state in state_of(store).items()}
    with open_elsewhere(store, 30) as pid:
        writers = (("put", "k2", "v"), ("delete", "k1"), ("load", "/dev/null", "--text"))
        for words in writers:
            result = run(words[0], store, *words[1:], "--db", "orders")
            assert result.code == 3, words
            assert f"process {pid}" in result.err
        for command, *options in (("crash", "--in-place", "--yes"), ("checkpoint",), ("recover",)):
            assert run(command, store, *options).code == 3, command
        for command, *options in (("get", "k1", "--db", "orders"), ("scan", "--db", "orders"), ("dbs",), ("info",)):
            result = run(command, store, *options)
            assert result.code == 0, command
            assert str(pid) in result.err + result.text
    assert {path: state[2] for path, state in state_of(store).items() if not path.endswith(".lck")} == before


@pytest.mark.parametrize("words", [("--matrix", "2"), ("-n",), ("--at", "write:2", "-n")])
def test_crash_of_what_cannot_be_recovered(tmp_path: Path, words: tuple[str, ...]) -> None:
    database = extract(FIVE, tmp_path)
    with (database / "service.properties").open("a") as properties:
        properties.write("dataEncryption=true\n")
    result = run("crash", database, *words)
    assert result.code == 5
    assert "encrypted" in result.err


def test_damaged_stores_give_clear_errors(store: Path) -> None:
    """Whatever is broken: a declared exit code and a message, never a stack trace."""
    put(store, "k1", "v1")
    whole = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    for path, data in whole.items():
        for damaged in (b"", data[: len(data) // 2], bytes(len(data)), b"\xff" * len(data)):
            path.write_bytes(damaged)
            for words in (("scan", "--db", "orders"), ("put", "k2", "v2", "--db", "orders", "-n"), ("dbs",)):
                result = run(words[0], store, *words[1:])
                assert result.code in (0, 1, 2, 3, 4, 5, 7), (path.name, words)
                assert "Traceback" not in result.err
        path.write_bytes(data)
