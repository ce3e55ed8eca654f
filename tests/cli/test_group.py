"""``jetool group``: members as JE prints them, and a new group around one node (R-UTIL-45, R-UTIL-46)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from jetool.frame import exits
from tests.support.environments.copies import copy_of, state_of
from tests.support.environments.oracle import Environment as Fixture
from tests.support.environments.oracle import environments, named
from tests.support.harness import assert_valid, run
from tests.support.logs.golden_logs import GOLDEN

NODE = re.compile(r" Node:(\S+) (\S+):(\d+) \(is member\) changeVersion:(\d+) .*?jeVersion:(\S+)(?: id:(\d+))?")
NEW = ("--group", "NEW", "--node", "alone", "--address", "here:5099")


def grouped() -> list[Any]:
    found: list[Any] = environments()
    return [parameter for parameter in found if "Group info" in _group_text(parameter.values[0])]


def _group_text(fixture: Fixture) -> str:
    path = fixture.path / "expected" / "group.txt"
    return path.read_text() if path.exists() else ""


def shown(env: Path) -> dict[str, Any]:
    result = run("group", "show", env, "--json")
    assert_valid("group show", result.out)
    assert result.code == exits.DONE
    found: dict[str, Any] = result.json()
    return found


@pytest.mark.parametrize("environment", grouped())
def test_members_are_those_that_je_prints(environment: Fixture) -> None:
    text = _group_text(environment)
    found = shown(environment.path / "env")
    assert f"Group info [{found['name']}] {found['uuid']}\n" in text
    labels = {
        "Format version": "format_version", "Change version": "change_version",
        "Max persist rep node ID": "last_node_id", "Min JE version": "min_je_version",
    }  # fmt: skip
    for label, field in labels.items():
        assert f" {label}: {found[field]}\n" in text
    expected = [
        (name, host, int(port), int(change), release) for name, host, port, change, release, _ in NODE.findall(text)
    ]
    members = [m for m in found["members"] if not m["removed"]]
    ours = [(m["name"], m["host"], m["port"], m["change_version"], m["je_version"]) for m in members]
    assert sorted(ours) == sorted(expected)


def test_no_group() -> None:
    for env in (GOLDEN / "je-17/empty", GOLDEN / "je-6/empty"):
        if env.is_dir():
            assert run("group", "show", env).code == exits.NOT_FOUND


def test_reset(tmp_path: Path) -> None:
    env = copy_of(named("je-18.3.20/ha-group/node2"), tmp_path / "env")
    before, old = state_of(env), shown(env)
    assert run("group", "reset", env, *NEW).code == exits.REFUSED
    planned = run("group", "reset", env, *NEW, "-n", "--json")
    assert planned.code == exits.DONE
    assert state_of(env) == before
    result = run("group", "reset", env, *NEW, "--yes", "--json")
    assert_valid("group reset", result.out)
    done = result.json()
    assert result.code == exits.DONE, result.err
    assert (done["first_vlsn"], planned.json()["first_vlsn"]) == (280, 280)
    assert done["members_before"] == old["members"]
    new = shown(env)
    assert new["uuid"] == done["after"]["uuid"] != old["uuid"]
    (member,) = new["members"]
    assert (member["name"], member["id"], member["host"], member["port"]) == ("alone", 4, "here", 5099)
    assert (new["name"], new["last_node_id"], new["change_version"]) == ("NEW", 4, 1)
    # The old stream is in the log, and no longer in the index; a rebuild does not bring it back.
    check = run("vlsn", "check", env, "--json")
    assert (check.code, [f["code"] for f in check.json()["findings"]]) == (exits.DONE, ["JE-REP-008"])
    assert (
        run("vlsn", "rebuild", env, "--force", "--backup-dir", "none", "-n", "--json").json()["after"]["first"] == 280
    )
    assert run("undo", env, "--backup-dir", done["backup"]).code == exits.DONE
    assert {n: v[1:] for n, v in state_of(env).items() if n.endswith(".jdb")} == {
        n: v[1:] for n, v in before.items() if n.endswith(".jdb")
    }


def test_records_survive_a_reset_and_can_be_written(tmp_path: Path) -> None:
    env = copy_of(named("je-18.3.20/ha-rollback/node3"), tmp_path / "env")
    names = [row["name"] for row in run("dbs", env, "--json").json()["records"]]
    before = {name: run("dump", env, "--db", name).out for name in names}
    assert run("put", env, "0x00", "0x01", "--db", names[0]).code == exits.REFUSED
    assert run("group", "reset", env, *NEW, "--yes", "--backup-dir", "none").code == exits.DONE
    assert {name: run("dump", env, "--db", name).out for name in names} == before
    assert run("put", env, "0x00", "0x01", "--db", names[0]).code == exits.DONE
    assert run("vlsn", "check", env).code == exits.DONE
    again = run("group", "reset", env, *NEW, "--yes", "--json", "--backup-dir", "none")
    assert [member["id"] for member in again.json()["members"]] == [5]


def test_a_lone_master_writes_its_term_in_logs_of_later_versions(tmp_path: Path) -> None:
    """je-log-format.md 6.6: since v22 a replicated Commit says since when its master leads."""
    env = copy_of(named("je-25.3.17/ha-group/node1"), tmp_path / "env")
    names = [row["name"] for row in run("dbs", env, "--json").json()["records"]]
    before = {name: run("dump", env, "--db", name).out for name in names}
    assert run("group", "reset", env, *NEW, "--yes", "--backup-dir", "none").code == exits.DONE
    assert {name: run("dump", env, "--db", name).out for name in names} == before
    assert run("put", env, "k", "v", "--db", names[0]).code == exits.DONE
    lines = run("dump-log", env, "--replicated", "--type", "commit", "--format", "ndjson").out.splitlines()
    commits = [row for row in map(json.loads, lines) if row["rec"] == "entry"]
    assert {row["version"] for row in commits} == {26}
    *old, reset, put = [row["master_term"] for row in commits]
    assert 0 < max(old) < reset < put
    assert run("vlsn", "check", env).code == exits.DONE
    assert run("verify", env, "--full").code == exits.DONE


def test_usage(tmp_path: Path) -> None:
    alone = copy_of(named("je-18.3.20/empty"), tmp_path / "alone")
    assert run("group", "reset", alone, *NEW, "--yes", "--backup-dir", "none").code == exits.REFUSED
    assert run("group", "reset", alone, "--yes").code == exits.USAGE
    env = copy_of(named("je-18.3.20/ha-group/node1"), tmp_path / "env")
    long = ("--group", "x" * 300, "--node", "n", "--address", "here:1", "--yes", "--backup-dir", "none")
    assert run("group", "reset", env, *long).code == exits.USAGE
    assert run("group", "show", tmp_path).code == exits.NOT_FOUND
