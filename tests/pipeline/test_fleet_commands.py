"""``jetool fleet``: what it prints, writes, and ends with."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest

from engine.log.files import list_log_files
from engine.pipeline.fleet import verify
from engine.pipeline.fleet.backends import SparkFleet
from engine.pipeline.inventory import list_members, members
from engine.pipeline.session import Session
from engine.storage.disk import DiskStorage
from engine.verify.environment import DEFAULT, LEVELS, QUICK, verify_environment
from tests.support.corpus import copy
from tests.support.environments.frontends import rolled, write_frontend
from tests.support.harness import assert_valid, run
from tests.support.tools import needs


@pytest.fixture
def fixtures(corpus: Path) -> Path:
    return corpus / "je/je-18.3.20"


def test_report_in_every_format(fixtures: Path, tmp_path: Path) -> None:
    needs("Spark")
    words: list[str | Path] = ["fleet", "report", fixtures / "txn-closed/env", f"{fixtures}/ha-rollback/node?/env"]
    text = run(*words, "--html", tmp_path / "fleet.html", "--parquet", tmp_path / "dataset")
    assert text.code == 0
    lines = text.text.splitlines()
    assert lines[2].split()[:2] == ["txn-closed", "clean"]
    assert any(line.startswith("INS_LN_TX") for line in lines)
    assert (tmp_path / "fleet.html").read_text().startswith("<!DOCTYPE html>")
    assert "the page was written" in text.err
    found = run(*words, "--json")
    assert_valid("fleet report", found.out)
    records = found.json()["records"]
    assert [record["name"].split("/")[-2] for record in records] == ["txn-closed", "node1", "node2", "node3"]
    node = records[1]
    assert (node["first_vlsn"], node["last_vlsn"], node["rollback_count"], node["invisible"]) == (1, 225, 1, 10)
    assert node["rollbacks"][0]["matchpoint_vlsn"] == 150
    assert found.json()["summary"] == {
        "environments": 4, "unreadable": 0, "damaged": 0, "rolling_back": 0, "marked": 0, "complete": True,
        "bytes": sum(record["bytes"] for record in records), "entries": sum(record["entries"] for record in records),
    }  # fmt: skip
    records = run(*words, "--format", "ndjson", "--fields", "name,state").lines()
    assert records[0] == {"rec": "environment", "name": str(fixtures / "txn-closed/env"), "state": "clean"}
    assert records[-1]["rec"] == "summary"
    assert run(*words, "--format", "csv", "--fields", "state,entries").text.splitlines()[1] == "clean,558"


def test_the_dataset_is_what_the_report_says(fixtures: Path, tmp_path: Path) -> None:
    needs("Spark")
    words: list[str | Path] = [
        "fleet",
        "report",
        f"{fixtures}/ha-rollback-thrice/node?/env",
        fixtures / "corrupt-middle/env",
    ]
    done = run(*words, "--parquet", tmp_path / "d", "--json")
    assert done.code == 1
    import pyarrow.parquet as pq

    records = {record["environment"]: record for record in done.json()["records"]}
    for row in pq.read_table(tmp_path / "d/environments.parquet").to_pylist():
        record = records[row["environment"]]
        for name in ("state", "entries", "bytes", "last_vlsn", "damage_count", "open_txns", "end_of_log", "group"):
            assert row[name] == record[name], name
    for table in ("types", "checkpoints", "rollbacks", "damages"):
        count = pq.read_metadata(tmp_path / f"d/{table}.parquet").num_rows
        assert count == sum(len(record[table]) for record in records.values())
    again = run(*words, "--parquet", tmp_path / "d")
    assert again.code == 3
    assert "not empty" in again.err


def test_damage_and_what_cannot_be_read(fixtures: Path, tmp_path: Path) -> None:
    damaged = run("fleet", "report", fixtures / "corrupt-middle/env", fixtures / "torn-cut-mid/env")
    assert damaged.code == 1
    assert "warning: 1 place of damage" in damaged.err
    assert run("fleet", "report", fixtures / "torn-cut-mid/env").code == 0
    part = run("fleet", "report", fixtures / "empty/env", tmp_path / "none", "--json")
    assert part.code == 7
    assert part.json()["records"][0]["state"] == "unreadable"
    assert part.json()["summary"]["complete"] is False
    assert "left out" in part.err
    (tmp_path / "plain").mkdir()
    assert run("fleet", "report", tmp_path / "plain").code == 4
    assert run("fleet", "report", f"{tmp_path}/no-*").code == 4
    assert run("fleet", "report").code == 2
    assert run("fleet", "report", fixtures / "empty/env", "--html", tmp_path / "no" / "page.html").code == 7
    assert run("fleet", "report", "--inventory", tmp_path / "none.txt").code == 4


def test_an_inventory_names_and_groups(fixtures: Path, tmp_path: Path) -> None:
    lines = [
        json.dumps(
            {"env": str(fixtures / f"ha-rollback-begun/node{number}/env"), "name": f"fe{number}", "group": "prod"}
        )
        for number in (1, 2, 3)
    ]
    (tmp_path / "fleet.txt").write_text("\n".join(["# frontends", *lines]))
    found = run("fleet", "compare", "--inventory", tmp_path / "fleet.txt")
    assert found.code == 1
    rows = [line.split() for line in found.text.splitlines()]
    assert [row[:3] for row in rows[3:6]] == [["1", "prod", "fe2"], ["1", "prod", "fe3"], ["3", "prod", "fe1"]]
    assert ["fe1", "fe2", "behind", "129", "0", "0", "51", "9"] in rows


def test_compare_for_programs(fixtures: Path) -> None:
    same = run("fleet", "compare", f"{fixtures}/ha-rollback/node?/env", fixtures / "empty/env", "--json")
    assert same.code == 0
    assert_valid("fleet compare", same.out)
    found = same.json()
    assert [node["rank"] for node in found["nodes"]] == [1, 1, 1, None]
    assert {pair["relation"] for pair in found["pairs"]} == {"identical"}
    assert {pair["matchpoint"]["vlsn"] for pair in found["pairs"]} == {225}
    assert len(found["pairs"]) == 3


def test_verify_says_where(fixtures: Path, tmp_path: Path) -> None:
    done = run("fleet", "verify", fixtures / "corrupt-middle/env", fixtures / "txn-closed/env", "--json")
    assert done.code == 1
    assert_valid("fleet verify", done.out)
    found = done.json()
    assert [finding["code"] for finding in found["findings"]] == ["JE-TAIL-002"]
    env = str(fixtures / "corrupt-middle/env")
    (alone,) = run("verify", env, "--json").json()["findings"]
    assert found["findings"] == [{"rec": "finding", "environment": env, **alone}]
    assert alone["file"] == "00000005.jdb"
    assert (found["summary"]["environments"], found["summary"]["with_errors"]) == (2, 1)
    assert run("fleet", "verify", fixtures / "txn-closed/env", "--full").code == 0
    copy(fixtures / "empty/env", tmp_path / "e")
    done = run("fleet", "verify", tmp_path / "e", tmp_path / "none", "--format", "junit")
    assert done.code == 7
    assert "JE-FLEET-001" in done.text


def test_verify_of_files_one_by_one_says_what_verify_of_the_environment_says(
    session: Session, golden_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkFleet, "task_bytes", 1)
    envs = [path for path in sorted((golden_dir / "je-17").iterdir()) if list(path.glob("*.jdb"))]
    fleet = list_members(members([str(path) for path in envs]))
    assert max(len(listed.files.files) for listed in fleet if listed.files is not None) > 3
    for levels in (QUICK, DEFAULT, LEVELS):
        found = verify.verify_fleet(SparkFleet(session), fleet, levels)
        assert [one.env for one in found] == [str(path) for path in envs]
        for one in found:
            storage = DiskStorage(one.env)
            assert one.report == verify_environment(storage, list_log_files(storage), levels), one.env
    # Alone an environment has all cores for its trees.
    assert verify.verify_fleet(SparkFleet(session), fleet[:1], LEVELS) == found[:1]


def test_the_trees_of_one_environment_are_several_tasks_on_a_cluster(
    session: Session, fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = tmp_path / "env"
    assert run("create", env).code == 0
    for name in ("a", "b"):
        (tmp_path / "rows.csv").write_text("k,v\n" + "".join(f"{number:06d},{name * 90}\n" for number in range(9000)))
        words = ("load", env, tmp_path / "rows.csv", "--db", name, "--create", "--key", "k", "--engine", "local")
        assert run(*words).code == 0
    spoiled = tmp_path / "spoiled"
    copy(env, spoiled)
    file = spoiled / "00000001.jdb"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    cut = partial(verify.tree_shares, cores=8)
    monkeypatch.setattr(verify, "LEAST_SHARE_BYTES", 1 << 18)
    monkeypatch.setattr(verify, "tree_shares", lambda known, _: cut(known))
    for path, errors in ((env, False), (spoiled, True), (fixtures / "txn-crash/env", False)):
        fleet = list_members(members([str(path)]))
        assert fleet[0].files is not None
        assert len(cut([(str(path), fleet[0].files)])) > 3 or path not in (env, spoiled)
        storage = DiskStorage(str(path))
        (found,) = verify.verify_fleet(SparkFleet(session), fleet, LEVELS)
        assert found.report == verify_environment(storage, list_log_files(storage), LEVELS)
        assert bool(found.report.findings) >= errors
    assert cut([(str(number), list_log_files(DiskStorage(str(env)))) for number in range(8)]) == []


def test_the_journals_of_frontends_are_in_the_report(tmp_path: Path) -> None:
    for node, last in (("a", 40), ("b", 30)):
        (tmp_path / node).mkdir()
        # A copy that was made without its group shows them too.
        write_frontend(tmp_path / node, rolled(1, last, 20), epochs=2, replicated=node == "a")
    result = run("fleet", "report", tmp_path / "a", tmp_path / "b", "--json")
    assert_valid("fleet report", result.out, "json")
    assert [one["journals"] for one in result.json()["records"]] == [
        {"product": "doris", "first": 1, "last": last, "journals": last, "missing": 0, "epoch": 2} for last in (40, 30)
    ]
    text = run("fleet", "report", tmp_path / "a", tmp_path / "b").text
    assert re.search(r"^a +doris +1 +40 +40 +0 +2$", text, re.MULTILINE)
