"""``info`` and ``verify`` on real Derby databases; what a directory is; that readers never write."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from engine.derby.format import control
from engine.derby.verify.findings import CODES
from jetool.commands.verify.derby import RULES
from jetool.frame import cli
from jetool.frame.verbs import SHARED
from tests.cli.derby_databases import FIVE, NAMES, copy_of_je, damage, damage_cases, extract, manifest, state_of
from tests.support.harness import assert_valid, assert_valid_error, run

CASES = (
    "trailing length of the last record is zero",
    "checksum record of the last group never written, its data was",
    "one byte changed in a group in the middle of the log",
    "plausible length and wrong instant right at the end",
    "log.ctrl is missing, the mirror is good",
    "mirror damaged, log.ctrl good",
    "both control files damaged",
    "next log file exists, chained, header only",
    "next log file exists, previous instant wrong",
    "next log file exists, file number wrong",
    "control files point at a record that is not a checkpoint",
    "control files of a newer release",
    "log file of the checkpoint is missing",
)


def damaged(title: str, target: Path) -> Path:
    database = extract(FIVE, target)
    damage(database, next(case for case in damage_cases() if case["damage"] == title))
    return database


def info(database: Path, code: int = 0) -> dict[str, Any]:
    result = run("info", database, "--json")
    assert result.code == code, result.err
    assert_valid("info", result.out)
    return dict(result.json())


def codes(database: Path, code: int, *options: str) -> list[str]:
    result = run("verify", database, "--json", *options)
    assert result.code == code, result.err
    assert_valid("verify", result.out)
    return [one["code"] for one in result.json()["findings"]]


@pytest.mark.parametrize("name", NAMES)
def test_info_says_what_the_manifest_says(name: str, tmp_path: Path) -> None:
    expected = manifest(name)
    database = extract(name, tmp_path)
    found = info(database)
    assert (found["environment"], found["store"], found["release"]) == (str(database), "derby", "10.14")
    assert found["end_of_log"] == expected["scan"]["append_position"]
    assert found["end_reason"] == expected["scan"]["stopped_because"]
    last = expected["last_checkpoint"]
    assert found["last_checkpoint"] == {
        "instant": last["instant"],
        "redo_lwm": last["op"]["redoLWM"],
        "undo_lwm": last["op"]["undoLWM"],
        # Nobody keeps log: the design document's repPoint is not set.
        "truncation_points": [],
        "rep_point": None,
        "earliest_useful": last["op"]["undoLWM"],
        "transactions": len(last["op"]["ttab"]),
    }
    assert [one["file"] for one in found["log_files"]] == [one["file"] for one in expected["log_files"]]
    assert [one["bytes"] for one in found["log_files"]] == [one["length"] for one in expected["log_files"]]
    assert found["recovery"]["losers"] == expected["recovery"]["undo_order"]
    in_doubt = [int(number) for number, one in expected["open_at_end"].items() if one["prepared"]]
    assert sorted(found["recovery"]["in_doubt"]) == sorted(in_doubt)
    internal = [int(number) for number, one in expected["open_at_end"].items() if one["internal"]]
    assert found["recovery"]["internal"] == internal
    for one in found["open_transactions"]:
        known = expected["open_at_end"][str(one["transaction"])]
        assert one["first"] == known["first"]
        assert one["state"] == ("in doubt" if known["prepared"] else "loser")
    assert found["closed_cleanly"] == (name == "clean-shutdown")
    assert found["after_end"]["records"] == 0
    assert [one["used"] for one in found["control_files"]] == [True, False]


def test_info_of_the_five_transactions(tmp_path: Path) -> None:
    """Redo of nine records from (1,41652), loser 196 (section C of the behaviour document)."""
    database = extract(FIVE, tmp_path)
    found = info(database)
    assert found["recovery"]["records_to_redo"] == 9
    assert found["recovery"]["undo_lwm"] == "(1,40674)"
    text = run("info", database).text
    assert re.search(r"redo lwm +\(1,41652\)", text)
    chosen = run("info", database, "--format", "ndjson", "--fields", "closed_cleanly,end_of_log").lines()
    assert chosen[:-1] == [{"rec": "info", "closed_cleanly": False, "end_of_log": "(1,42645)"}]
    assert "(1,42645)" in run("info", database, "--format", "csv").text


def test_info_names_global_transactions(tmp_path: Path) -> None:
    found = info(extract("crash-xa-prepared", tmp_path))
    names = {one["transaction"]: one["global_id"] for one in found["open_transactions"]}
    assert names[186] == "4711:6774782d6f6e65:6272616e636830"
    assert names[202] is None


@pytest.mark.parametrize("name", NAMES)
def test_fixtures_are_whole(name: str, tmp_path: Path) -> None:
    database = extract(name, tmp_path)
    result = run("verify", database, "--json")
    assert result.code == 0
    assert_valid("verify", result.out)
    assert {one["severity"] for one in result.json()["findings"]} <= {"note"}
    summary = result.json()["summary"]
    assert summary["pages"] > 100
    assert summary["files"] == len(manifest(name)["log_files"])
    assert "page versions against the log" in summary["checked"]
    assert "order of keys in indexes" in summary["not_checked"]
    reported = [one for one in result.json()["findings"] if one["code"].startswith("DRB-REC")]
    assert len(reported) == len(manifest(name)["open_at_end"])
    assert_valid("verify", run("verify", database, "--format", "ndjson").out, "ndjson")


def test_log_only(tmp_path: Path) -> None:
    database = extract(FIVE, tmp_path)
    for options in (["--log"], ["--tail"], ["--log", "--tail"]):
        summary = run("verify", database, "--json", *options).json()["summary"]
        assert summary["checked"] == ["service properties", "control files", "log", "tail", "missing containers"]
        assert "pages of containers" in summary["not_checked"]
        assert summary["pages"] == 0


@pytest.mark.parametrize("option", ["--quick", "--full"])
def test_containers_cannot_be_missed_without_the_log(option: str, tmp_path: Path) -> None:
    """A check that could not run is listed as not checked, never as passed."""
    database = extract(FIVE, tmp_path)
    for path in (database / "log").glob("*.dat"):
        path.unlink()
    result = run("verify", database, option, "--json")
    summary = result.json()["summary"]
    assert result.code == 1
    assert "missing containers" in summary["not_checked"]
    assert "missing containers" not in summary["checked"]


@pytest.mark.parametrize("keep", [0, 2])
def test_quick_misses_containers(keep: int, tmp_path: Path) -> None:
    database = extract(FIVE, tmp_path)
    for at, path in enumerate(sorted((database / "seg0").iterdir())):
        if not keep or at % keep:
            path.unlink()
    result = run("verify", database, "--quick", "--json")
    assert result.code == 1
    assert {one["code"] for one in result.json()["findings"]} >= {"DRB-CONT-002"}


@pytest.mark.parametrize(
    ("title", "code", "found"),
    [
        ("trailing length of the last record is zero", 0, "DRB-LOG-001"),
        ("one byte changed in a group in the middle of the log", 1, "DRB-LOG-002"),
        ("plausible length and wrong instant right at the end", 1, "DRB-LOG-010"),
        ("log.ctrl is missing, the mirror is good", 0, "DRB-CTL-002"),
        ("mirror damaged, log.ctrl good", 0, "DRB-CTL-003"),
        ("both control files damaged", 1, "DRB-CTL-004"),
        ("next log file exists, file number wrong", 1, "DRB-LOG-004"),
        ("next log file exists, previous instant wrong", 0, "DRB-LOG-005"),
        ("log file of the checkpoint is missing", 1, "DRB-LOG-003"),
    ],
)
def test_damage_has_its_code(title: str, code: int, found: str, tmp_path: Path) -> None:
    assert found in codes(damaged(title, tmp_path), code)


def test_warnings_count_with_strict(tmp_path: Path) -> None:
    database = damaged("mirror damaged, log.ctrl good", tmp_path)
    assert codes(database, 8, "--strict")
    assert codes(extract(FIVE, tmp_path / "whole"), 0, "--strict") == ["DRB-REC-001"]


def test_a_damaged_page_has_its_place_in_every_format(tmp_path: Path) -> None:
    database = extract(FIVE, tmp_path)
    path = database / "seg0" / "c490.dat"
    data = bytearray(path.read_bytes())
    data[4096 + 200] ^= 0xFF
    path.write_bytes(bytes(data))
    result = run("verify", database, "--json")
    assert result.code == 1
    (one,) = [one for one in result.json()["findings"] if one["severity"] == "error"]
    assert (one["code"], one["file"], one["container"], one["page"]) == ("DRB-PAGE-001", "seg0/c490.dat", 0x490, 1)
    assert "ERROR DRB-PAGE-001 seg0/c490.dat container 1168 page 1" in run("verify", database).text
    sarif = run("verify", database, "--format", "sarif").json()["runs"][0]
    assert [rule["id"] for rule in sarif["tool"]["driver"]["rules"]] == [code for code, _ in RULES]
    places = [one["locations"][0]["physicalLocation"] for one in sarif["results"] if "locations" in one]
    assert {"artifactLocation": {"uri": "seg0/c490.dat"}} in places
    junit = ET.fromstring(run("verify", database, "--format", "junit").out)
    assert junit.attrib["failures"] == "1"
    (failure,) = junit.iter("failure")
    assert failure.text is not None
    assert failure.text.startswith("seg0/c490.dat container 1168 page 1: ")
    lines = run("verify", database, "--format", "prometheus").text.splitlines()
    assert any(f'environment="{database}",code="DRB-PAGE-001",severity="error"}} 1' in line for line in lines)
    assert "DRB-PAGE-001" in run("verify", database, "--format", "csv").text


def test_places_in_the_log_are_byte_offsets_for_sarif(tmp_path: Path) -> None:
    database = damaged("one byte changed in a group in the middle of the log", tmp_path)
    results = run("verify", database, "--format", "sarif").json()["runs"][0]["results"]
    (one,) = [result for result in results if result["ruleId"] == "DRB-LOG-002"]
    place = one["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "log/log1.dat"}, "region": {"byteOffset": 41854}}


def test_every_code_has_a_rule() -> None:
    assert [code for code, _ in RULES] == list(CODES)


def test_committed_work_behind_the_end_shows_in_info(tmp_path: Path) -> None:
    database = damaged("one byte changed in a group in the middle of the log", tmp_path)
    found = info(database, 1)
    assert found["end_of_log"] == "(1,41854)"
    assert found["after_end"]["commits"] == 2
    assert found["after_end"]["transactions"] == [194, 200]
    assert "Derby would drop them" in run("info", database).err


def test_info_without_the_log_file_of_the_checkpoint(tmp_path: Path) -> None:
    found = info(damaged("log file of the checkpoint is missing", tmp_path), 1)
    assert found["recovery"] is None
    assert "missing" in found["problem"]


def test_foreign_releases_and_encrypted_databases_are_refused(tmp_path: Path) -> None:
    newer = extract(FIVE, tmp_path / "newer")
    for name in ("log.ctrl", "logmirror.ctrl"):
        path = newer / "log" / name
        path.write_bytes(control.encode(control.decode(path.read_bytes())._replace(minor=99)))
    secret = extract(FIVE, tmp_path / "secret")
    properties = secret / "service.properties"
    properties.write_text(properties.read_text() + "dataEncryption=true\n")
    for database, word in ((newer, "release"), (secret, "encrypted")):
        for verb in ("info", "dump-log", "verify"):
            result = run(verb, database)
            assert result.code == 5, (verb, result.err)
            assert word in result.err
    assert run("info", secret, "--json").json()["encrypted"] is True


def test_what_a_directory_is(tmp_path: Path) -> None:
    je = copy_of_je(tmp_path)
    database = extract(FIVE, tmp_path)
    (tmp_path / "empty").mkdir()
    expected = {
        tmp_path / "nothing": (4, "no such directory"),
        database / "service.properties": (4, "not a directory"),
        tmp_path / "empty": (4, "no Berkeley DB JE environment and no Derby database"),
        database / "log": (4, "name the directory above it"),
        database / "seg0": (4, "name the directory above it"),
    }
    for path, (code, words) in expected.items():
        for verb in ("info", "dump-log", "verify"):
            result = run(verb, path, "--json")
            assert result.code == code, (verb, path)
            assert_valid_error(result)
            assert words in result.err
    (database / "00000000.jdb").write_bytes(next(je.glob("*.jdb")).read_bytes())
    result = run("verify", database, "--json")
    assert result.code == 2
    assert "both" in result.error()["what"]


def test_a_database_that_lost_a_mark_is_still_one(tmp_path: Path) -> None:
    database = extract(FIVE, tmp_path)
    (database / "service.properties").unlink()
    assert run("info", database).code == 1
    (database / "log" / "log.ctrl").unlink()
    (database / "log" / "logmirror.ctrl").unlink()
    result = run("info", database, "--json")
    assert result.code == 4
    assert "service.properties or log/log.ctrl" in result.error()["expected"]


def test_an_open_database_is_read_with_a_note(tmp_path: Path) -> None:
    """Readers go on. Another process holds the lock that a JVM takes."""
    database = extract(FIVE, tmp_path)
    (database / "dbex.lck").write_bytes(bytes(4))
    (database / "db.lck").write_bytes(bytes(38))
    code = (
        "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX, 1, 0); print('locked', "
        "flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(database / "dbex.lck")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"locked\n"
        found = info(database)
        assert found["open_for_writing_by"] == holder.pid
        assert found["lock_files"] == ["db.lck", "dbex.lck"]
        assert "DRB-DB-001" in codes(database, 0)
        said = run("dump-log", database).err
        assert f"process {holder.pid} (" in said
        assert "has the database open" in said
        holder.stdin.close()
    assert info(database)["open_for_writing_by"] is None


@pytest.mark.parametrize("title", [None, *CASES])
def test_readers_never_write(title: str | None, tmp_path: Path) -> None:
    database = damaged(title, tmp_path) if title else extract(FIVE, tmp_path)
    before = state_of(database)
    os.chmod(database, 0o555)
    for words in (["info"], ["verify"], ["verify", "--log"], ["dump-log", "--data"], ["dump-log", "--stats"],
                  ["dump-log", "--reverse", "--format", "json"]):  # fmt: skip
        result = run(words[0], database, *words[1:])
        assert result.code in (0, 1, 5), (words, result.err)
        assert "internal" not in result.err
    os.chmod(database, before[str(database)][0])
    assert state_of(database) == before


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", range(28))
def test_every_damage_has_valid_output(case: int, tmp_path: Path) -> None:
    database = extract(FIVE, tmp_path)
    one = damage_cases()[case]
    damage(database, one)
    for verb in ("info", "verify", "dump-log"):
        for form in ("json", "ndjson"):
            result = run(verb, database, "--format", form)
            assert result.code in (0, 1, 5), (one["damage"], verb, result.err)
            if result.code != 5:
                assert_valid(verb, result.out, form)
                continue
            assert json.loads(result.err.splitlines()[-1])["kind"] == "unsupported"


JE_ONLY = {
    "vlsn map": [],
    "group show": [],
    "watch": ["--count", "1"],
    "group reset": ["-n", "--group", "a", "--node", "b", "--address", "c:1"],
    "vlsn range": [],
    "vlsn find": ["1"],
    "vlsn buckets": [],
    "vlsn check": [],
    "vlsn rebuild": ["-n"],
    "vlsn gaps": [],
    "rollbacks": [],
    "db remove": ["a", "-n"],
    "db rename": ["a", "b", "-n"],
    "db truncate": ["a", "-n"],
    "diff": ["."],
    "history": ["0x00", "--db", "a"],
    "truncate": ["--to", "commits:-1"],
    "missing": [],
    "ldap export": [],
    "ldap check": [],
    "ldap changelog": [],
    "ldap changes": [],
    "journal list": [],
    "journal show": [],
    "journal check": [],
    "journal compare": ["."],
    "journal stats": [],
    "journal plan-skip": ["1"],
    "journal truncate": ["--after", "1"],
    "clean": [],
    "space": [],
    "cache-size": [],
    "salvage": ["--to", "out"],
    "backup take": ["out"],
}
# These serve page stores of jetool; the tables of other databases are SQL's.
STORE_ONLY = {
    "get": ["0x00", "--db", "a"],
    "put": ["0x00", "0x00", "--db", "a"],
    "delete": ["0x00", "--db", "a"],
    "load": ["/dev/null", "--db", "a", "--text"],
}


@pytest.mark.parametrize("verb", JE_ONLY)
def test_verbs_that_mean_nothing_for_a_kind_say_so(verb: str, tmp_path: Path) -> None:
    database = extract(FIVE, tmp_path)
    before = state_of(database)
    result = run(*verb.split(), database, *JE_ONLY[verb], "--json")
    assert result.code == 2, result.err
    assert "not available for Derby databases" in result.err, result.err
    assert state_of(database) == before


@pytest.mark.parametrize("verb", STORE_ONLY)
def test_verbs_of_records_do_not_touch_sql_tables(verb: str, tmp_path: Path) -> None:
    database = extract(FIVE, tmp_path)
    before = state_of(database)
    result = run(verb, database, *STORE_ONLY[verb], "--json")
    assert (result.code, result.out) == (2, b""), result.err
    assert "no page store of jetool" in result.err
    assert state_of(database) == before


def test_which_verbs_serve_one_kind_only() -> None:
    # ``doctor`` takes directories of every kind and looks itself at what each is.
    on_environments = {
        name: one
        for name, one in cli.commands()
        if any(param.name == "env" for param in one.params) and not one.any_directory
    }
    only_je = {name for name, one in on_environments.items() if getattr(one.callback, "__name__", "") not in SHARED}
    assert only_je == {*JE_ONLY, "export", "node run"}


def test_levels_of_trees_mean_nothing_here(tmp_path: Path) -> None:
    database = extract(FIVE, tmp_path / "db")
    for option in ("--tree", "--refs", "--data", "--space"):
        result = run("verify", database, option, "--json")
        assert result.code == 2
        assert_valid_error(result)
    full = run("verify", database, "--full", "--json").json()["summary"]
    quick = run("verify", database, "--quick", "--json").json()["summary"]
    assert full["pages"] > 0
    assert "pages of containers" in quick["not_checked"]


def test_log_archiving_is_a_truncation_point(tmp_path: Path) -> None:
    """Step 8: what is needed begins at repPoint or undoLWM, whichever is earlier."""
    database = extract("crash-log-files", tmp_path)
    with (database / "service.properties").open("a") as properties:
        properties.write("derby.storage.logArchiveMode=true\n")
    last = info(database)["last_checkpoint"]
    assert (last["truncation_points"], last["rep_point"]) == (["log archive (1,24)"], "(1,24)")
    assert last["earliest_useful"] == "(1,24)"
    done = run("checkpoint", database, "--json")
    assert_valid("checkpoint", done.out)
    taken = done.json()["checkpoint"]
    assert (taken["rep_point"], taken["earliest_useful"], taken["log_files_removed"]) == ("(1,24)", "(1,24)", [])
    assert "rep point" in run("checkpoint", database).text


@pytest.mark.parametrize("data", [None, b"", b"\x00" * 800])
def test_service_properties_that_derby_does_not_start_with(data: bytes | None, tmp_path: Path) -> None:
    """Every level of verify and info say it; what writes refuses, a dry run too."""
    database = extract(FIVE, tmp_path)
    properties = database / "service.properties"
    properties.unlink()
    if data is not None:
        properties.write_bytes(data)
    for options in (["--quick"], [], ["--full"]):
        assert codes(database, 1, *options)[0] == "DRB-DB-002"
    assert "service.properties" in info(database, 1)["problem"]
    for words in (["recover", "-n"], ["checkpoint", "-n"], ["recover"], ["recover", "--accept-loss"], ["checkpoint"]):
        before = state_of(database)
        result = run(*words[:1], database, *words[1:], "--json")
        assert result.code == 3, words
        assert "service.properties" in result.error()["what"]
        # Making and removing the lock file changes the time of the directory.
        after = state_of(database) if "-n" in words else state_of(database) | {str(database): before[str(database)]}
        assert after == before, words


def test_a_left_over_container_is_a_note(tmp_path: Path) -> None:
    """Nothing names it, so nothing in it is damage; Derby does not look at it."""
    database = extract("clean-shutdown", tmp_path)
    (database / "seg0" / "c9a31.dat").write_bytes((database / "seg0" / "ca1.dat").read_bytes()[:5000])
    assert codes(database, 0, "--full", "--strict") == ["DRB-CONT-005"]
    assert run("info", database).code == run("recover", database, "-n").code == 0


def test_a_log_on_another_device_is_read(tmp_path: Path) -> None:
    database = extract(FIVE, tmp_path)
    device = tmp_path / "device"
    device.mkdir()
    (database / "log").rename(device / "log")
    with (database / "service.properties").open("a") as properties:
        properties.write(f"logDevice={device}\n")
    assert codes(database, 0, "--full") == ["DRB-REC-001"]
    assert info(database)["files"] == 1
    for words in (
        ["dump-log", "--limit", "3"],
        ["txns"],
        ["recover", "--explain"],
        ["recover", "--explain", "--timeline"],
    ):
        assert run(words[0], database, *words[1:]).code == 0, words
    assert run("recover", database).code == 5
    shutil.rmtree(device)
    assert "DRB-DB-002" in codes(database, 1)
    assert info(database, 1)["problem"].endswith(f"it is not there: {device}")
    assert run("recover", database).code == 3
