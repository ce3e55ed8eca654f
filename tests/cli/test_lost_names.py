"""What is lost is named by recover and salvage; salvage counts commits whose records are destroyed."""

from __future__ import annotations

from pathlib import Path

from tests.support import corpus
from tests.support.environments.applications import AFTER, create_ldap, damage, write_ldap
from tests.support.harness import assert_valid, run

JE = corpus.path() / "je/je-18.3.20"


def test_recover_names_keys() -> None:
    env = JE / "corrupt-middle/env"
    shown = run("recover", env, "-n", "--accept-loss", "--json")
    assert_valid("recover", shown.out, "json")
    found = shown.json()
    assert (shown.code, found["commits_lost"], found["lost_unnamed"]) == (6, 3, 1)
    assert [one["name"] for one in found["lost"] if one["db"] == "paths"] == ["/metrics/us-west/svc-00/host-035/000035"]
    assert run("recover", JE / "txn-crash/env", "-n", "--json").json()["lost"] == []


def test_a_recovery_names_what_it_has_cut_off(tmp_path: Path) -> None:
    env = corpus.copy(JE / "corrupt-middle/env", tmp_path / "env")
    plan, done = (run("recover", env, *words, "--accept-loss", "--json").json() for words in (("-n",), ()))
    assert done["lost"] == plan["lost"] != []


def test_recover_names_dns(tmp_path: Path) -> None:
    backend = damage(create_ldap(tmp_path / "ldap"), write_ldap)
    found = run("recover", backend, "-n", "--accept-loss", "--json").json()
    assert found["commits_lost"] == AFTER
    assert {one["kind"] for one in found["lost"]} == {"dn"}
    assert len(found["lost"]) + found["lost_unnamed"] >= AFTER


def test_salvage_counts_commits_with_a_destroyed_record(tmp_path: Path) -> None:
    shown = run("salvage", JE / "corrupt-middle/env", "-n", "--to", tmp_path / "to", "--json")
    found = shown.json()
    assert (shown.code, found["lost_commits"]) == (6, 1)
    assert "1 commit has a record in damaged bytes" in found["why"]
    assert run("salvage", JE / "txn-crash/env", "-n", "--to", tmp_path / "to", "--json").json()["lost_commits"] == 0


def test_an_empty_dump_is_blamed_on_the_file(tmp_path: Path) -> None:
    env, file = corpus.copy(JE / "txn-crash/env", tmp_path / "env"), tmp_path / "empty.dump"
    file.touch()
    shown = run("load", env, file, "-n", "--db", "new", "--create", "--json")
    error = shown.error()
    assert (shown.code, error["what"], error["file"]) == (5, "the file is empty", str(file))
    assert "verify" not in error["hint"]
