"""``dbs``, ``scan``, ``get``, ``dump``: what recovery leaves, without a trace in the environment."""

from __future__ import annotations

import hashlib
import json
import stat
from pathlib import Path

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment as Engine
from engine.fields import named_row
from jetool.frame.record_output import printed
from jetool.output.je_dump import JeDumpEncoder
from tests.support.environments.copies import copy_of, expected_dumps, state_of
from tests.support.environments.oracle import Environment, environments, named
from tests.support.harness import assert_valid, assert_valid_error, run, spawn

TXN_CRASH = "je-18.3.20/txn-crash"
DUPS = "je-18.3.20/dups"
# Environments that cannot be opened, and the exit code that says why.
REFUSED = {
    "missing-file": 7, "corrupt-older-file": 7, "restore-required": 3, "rollback-overlap": 7,
    "rollback-commit-inside": 7,
}  # fmt: skip
# ... and those of which a reader does not see all that was committed.
CODES = {**REFUSED, "corrupt-middle": 1}


@pytest.mark.parametrize("environment", environments())
def test_every_dump_is_that_of_dbdump(environment: Environment) -> None:
    env = environment.path / "env"
    before = state_of(env)
    expected = expected_dumps(environment)
    for name, data in expected.items():
        result = run("dump", env, "--db", name)
        assert result.code == CODES.get(environment.path.name, 0), result.err
        assert result.out == data, name
    listed = run("dbs", env, "--format", "ndjson", "--count")
    assert listed.code == CODES.get(environment.path.name, 0), listed.err
    if expected:
        assert {line["name"] for line in listed.lines()[:-1]} >= set(expected)
    assert state_of(env) == before


@pytest.mark.parametrize("environment", environments())
def test_databases_are_those_that_je_lists(environment: Environment) -> None:
    report = json.loads(environment.expected("recovery.json"))
    if environment.path.name in REFUSED or not report.get("databases"):
        return
    if report.get("recovery", {}).get("resurrectedTxnIds"):
        return  # JE counts what its resurrected transactions have written.
    rows = {row["name"]: row for row in run("dbs", environment.path / "env", "--json", "--count").json()["records"]}
    for expected in report["databases"]:
        row = rows[expected["name"]]
        found = [row["id"], row["duplicates"], row["max_entries"], row["records"]]
        assert found == [
            expected["id"],
            expected["dups"],
            expected["nodeMaxEntries"] or row["max_entries"],
            expected["records"],
        ]
        assert (row["comparator"] is None) == (expected.get("btreeComparator") is None)
        assert digest(environment, row["name"]) == expected["sha256"]


def digest(environment: Environment, name: str) -> str:
    """SHA-256 of the records as the README of the fixtures defines it."""
    sha = hashlib.sha256()
    for line in run("dump", environment.path / "env", "--db", name, "--format", "ndjson").lines()[:-1]:
        for part in (bytes.fromhex(line["key"]), bytes.fromhex(line["data"])):
            sha.update(len(part).to_bytes(4, "big") + part)
    return sha.hexdigest()


def test_printable_is_that_of_dbdump() -> None:
    encoder = JeDumpEncoder(duplicates=True, printable=True)
    assert encoder.head().splitlines()[1:4] == [b"format=print", b"type=btree", b"dupsort=1"]
    rows = [named_row(printed((b"a b\\\x00", b"~\x7f\xff")))]
    assert encoder.rows(rows) == b" a\\20b\\\\\\00\n ~\\7f\\ff\n"


def test_output_is_valid() -> None:
    env = named(DUPS).path / "env"
    for form in ("json", "ndjson"):
        for words in (("scan", env, "--db", "postings"), ("dump", env, "--db", "postings"), ("dbs", env, "--count")):
            assert_valid(words[0], run(*words, "--format", form).out, form)
        assert_valid("get", run("get", env, "user00000003", "--db", "postings", "--format", form).out, form)


def test_scan_takes_ranges_and_prefixes_and_both_directions() -> None:
    env = named(TXN_CRASH).path / "env"

    def keys(*options: str) -> list[str]:
        result = run("scan", env, "--db", "paths", "--format", "ndjson", "--key-format", "utf8", *options)
        assert result.code == 0, result.err
        *lines, summary = result.lines()
        assert summary["records"] == len(lines)
        return [line["key"] for line in lines]

    every = keys()
    assert len(every) == 90
    assert every == sorted(every)
    assert keys("--reverse") == every[::-1]
    assert keys("--from", every[10], "--to", every[20]) == every[10:21]
    assert keys("--from", every[10], "--to", every[20], "--reverse") == every[10:21][::-1]
    assert keys("--limit", "3", "--reverse") == every[:-4:-1]
    prefix = every[40][:-1]
    assert keys("--prefix", prefix) == [key for key in every if key.startswith(prefix)]
    assert keys("--prefix", "no such key") == []


def test_scan_says_whether_the_limit_left_something_out() -> None:
    env = named(TXN_CRASH).path / "env"
    for limit, complete in ((89, False), (90, True), (91, True)):
        summary = run("scan", env, "--db", "paths", "--format", "ndjson", "--limit", str(limit)).lines()[-1]
        assert summary["complete"] is complete


def test_get_prints_all_data_items_of_a_key() -> None:
    env = named(DUPS).path / "env"
    found = run("get", env, "user00000003", "--db", "postings", "--json").json()["records"]
    assert len(found) > 5
    assert {row["key"] for row in found} == {b"user00000003".hex()}


def test_a_database_with_an_order_of_its_own() -> None:
    env = named("je-18.3.20/schema-crash").path / "env"
    row = next(row for row in run("dbs", env, "--json").json()["records"] if row["name"] == "newest_first")
    assert "ReverseOrder" in row["comparator"]
    rows = run("scan", env, "--db", "newest_first", "--json").json()["records"]
    assert [row["key"] for row in rows] == sorted((row["key"] for row in rows), reverse=True)
    assert (
        run("get", env, "0x" + rows[3]["key"], "--db", "newest_first", "--json").json()["records"][0]["key"]
        == rows[3]["key"]
    )
    refused = run("scan", env, "--db", "newest_first", "--from", "a")
    assert refused.code == 2
    assert "order of their bytes" in refused.err


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("get", "ENV", "nothing", "--db", "paths"), 4, "no record with the key"),
        (("get", "ENV", "key", "--db", "nowhere"), 4, "no database"),
        (("scan", "ENV", "--db", "nowhere"), 4, "no database"),
        (("dump", "ENV", "--db", "nowhere"), 4, "no database"),
        (("dbs", "ENV", "--db", "nowhere"), 4, "no database"),
        (("dbs", "/no/such/directory"), 4, "no such"),
        (("dump", "ENV"), 2, "--db"),
        (("scan", "ENV", "--db", "paths", "--prefix", "a", "--from", "b"), 2, "--prefix"),
        (("dump", "ENV", "--db", "paths", "-p", "--format", "csv"), 2, "--printable"),
        (("dump", "ENV", "--db", "paths", "--fields", "key"), 2, "--fields"),
    ],
)
def test_what_cannot_be_done_is_said(words: tuple[str, ...], code: int, text: str) -> None:
    env = named(TXN_CRASH).path / "env"
    result = run(*[env if word == "ENV" else word for word in words])
    assert result.code == code
    assert text in result.err
    assert result.out == b""


def test_errors_as_json() -> None:
    env = named("je-18.3.20/restore-required").path / "env"
    result = run("dbs", env, "--json")
    assert result.code == 3
    assert_valid_error(result)


@pytest.mark.parametrize("words", [("dbs",), ("scan", "--db", "accounts"), ("dump", "--db", "accounts")])
def test_a_reader_that_misses_committed_work_does_not_end_with_0(words: tuple[str, ...]) -> None:
    env = named("je-18.3.20/corrupt-middle").path / "env"
    result = run(words[0], env, *words[1:])
    assert result.code == 1
    assert "3 committed transactions among them" in result.err
    assert result.out
    summary = run(words[0], env, *words[1:], "--format", "ndjson").lines()[-1]
    assert (summary["rec"], summary["complete"]) == ("summary", False)
    assert "3 committed transactions" in summary["reason"]


@pytest.mark.parametrize("words", [("dbs",), ("scan", "--db", "accounts"), ("dump", "--db", "accounts")])
def test_a_torn_tail_without_commits_is_no_finding(words: tuple[str, ...]) -> None:
    env = named("je-18.3.20/torn-cut-mid").path / "env"
    result = run(words[0], env, *words[1:], "--format", "ndjson")
    assert (result.code, result.lines()[-1]["complete"]) == (0, True)


def test_a_table_says_whether_it_is_whole(tmp_path: Path) -> None:
    broken, whole = (named(f"je-18.3.20/{name}").path / "env" for name in ("corrupt-middle", "torn-cut-mid"))
    summary = run("dbs", broken, "--json").json()["summary"]
    assert summary["complete"] is False
    assert "3 committed transactions" in summary["reason"]
    summary = run("dbs", whole, "--json").json()["summary"]
    assert (summary["complete"], summary["reason"]) == (True, None)
    key = run("scan", broken, "--db", "accounts", "--limit", "1", "--json").json()["records"][0]["key"]
    assert run("get", broken, f"0x{key}", "--db", "accounts", "--json").json()["summary"]["complete"] is False
    compared = run("diff", broken, broken, "--records", "--json").json()
    assert (compared["same"], compared["complete"]) == (True, False)
    assert f"{broken}: 3 committed transactions" in compared["reason"]


def test_a_read_only_directory_is_enough(tmp_path: Path) -> None:
    env = copy_of(named(TXN_CRASH), tmp_path / "env")
    for path in env.iterdir():
        path.chmod(stat.S_IRUSR)
    env.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert len(run("dbs", env, "--json").json()["records"]) == 5
    finally:
        env.chmod(stat.S_IRWXU)


def test_a_live_writer_is_named(tmp_path: Path) -> None:
    with Engine(str(tmp_path / "env"), EnvironmentConfig(create=True)) as env:
        with env.create_database("orders") as db:
            db.put(b"key", b"data")
        result = spawn("get", tmp_path / "env", "key", "--db", "orders", "--data-format", "utf8")
    assert result.returncode == 0, result.stderr
    assert b"data" in result.stdout
    assert b"has the environment open for writing" in result.stderr
