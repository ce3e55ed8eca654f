"""``jetool verify``: exit codes, formats and the coverage line. The findings themselves: ``tests/verify``."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from engine.errors import StorageError
from engine.rescue.je_notes import RULES as OF_JE
from engine.storage.base import ReadFile
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from engine.verify import environment
from jetool.frame import exits
from jetool.output.findings import SEVERITIES
from tests.support import corpus
from tests.support.damage.spoiled_slots import missing_file
from tests.support.damage.spoiled_trees import sound, spoiled
from tests.support.environments.directories import put
from tests.support.environments.oracle import named
from tests.support.harness import Result, assert_valid, assert_valid_error, run
from tests.support.logs.log_writer import LogWriter, changed, whole

# What is checked when no level is named.
OF_DEFAULT = (*environment.ALWAYS, *(rule for level in environment.DEFAULT for rule in environment.RULES[level]))
NOT_CHECKED = ["bodies", "references", "trees", "data", "utilization", "replication index"]


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    return put(tmp_path / "clean", whole())


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """An error in file 3, a warning (a name in upper case) and a note (a torn tail)."""
    files = changed(whole(), "00000003.jdb", 300, b"????")
    files["00000005.jdb"] = files["00000005.jdb"][:-1]
    files["00000001.JDB"] = files.pop("00000001.jdb")
    return put(tmp_path / "damaged", files)


@pytest.fixture
def warned(tmp_path: Path) -> Path:
    """Nothing but a warning."""
    files = whole()
    files["00000001.JDB"] = files.pop("00000001.jdb")
    return put(tmp_path / "warned", files)


def test_clean(clean: Path) -> None:
    result = run("verify", clean, "--json")
    assert result.code == exits.DONE
    assert_valid("verify", result.out)
    report = result.json()
    assert report["findings"] == []
    summary = report["summary"]
    size = sum(path.stat().st_size for path in clean.iterdir())
    assert (summary["files"], summary["bytes"]) == (6, size)
    assert (summary["errors"], summary["warnings"], summary["notes"]) == (0, 0, 0)
    assert summary["checked"] == ["log", "tail"]
    assert summary["not_checked"] == NOT_CHECKED


def test_the_coverage_line(clean: Path) -> None:
    """What was checked and what was not, in every format that has a place for it."""
    for options, checked, not_checked in (
        (("--log",), ["log", "tail"], NOT_CHECKED),
        (("--tail",), ["tail"], ["log", *NOT_CHECKED]),
        (("--log", "--tail"), ["log", "tail"], NOT_CHECKED),
    ):
        summary = run("verify", clean, *options, "--format", "ndjson").lines()[-1]
        assert (summary["checked"], summary["not_checked"]) == (checked, not_checked)
        text = run("verify", clean, *options).text
        assert re.search(rf"^ *not.checked +{', '.join(not_checked)}$", text, re.MULTILINE), text
        assert re.search(rf"^ *checked +{', '.join(checked)}$", text, re.MULTILINE), text


def test_damage_in_every_format(damaged: Path) -> None:
    codes = {"JE-LOG-001": "error", "JE-LOG-021": "warning", "JE-TAIL-001": "note"}
    result = run("verify", damaged, "--json")
    assert result.code == exits.FINDINGS
    assert_valid("verify", result.out)
    found = result.json()["findings"]
    assert {f["code"]: f["severity"] for f in found} == codes
    assert [f["lsn"] for f in found][-1] is None
    assert found[0]["file"] == "00000003.jdb"
    assert found[0]["lsn"].startswith("0x3/0x")
    lines = run("verify", damaged, "--format", "ndjson")
    assert_valid("verify", lines.out, "ndjson")
    assert [line["code"] for line in lines.lines()[:-1]] == [f["code"] for f in found]
    text = run("verify", damaged)
    assert text.code == exits.FINDINGS
    for finding in found:
        for part in ("code", "consequence", "remedy"):
            assert finding[part] in text.text
    table = run("verify", damaged, "--format", "csv", "--fields", "code,severity").text
    assert table.splitlines()[0] == "code,severity"
    assert dict(line.split(",") for line in table.splitlines()[1:]) == codes


def test_junit(damaged: Path, clean: Path) -> None:
    """A case for each rule, failed for errors and warnings."""
    result = run("verify", damaged, "--format", "junit")
    assert result.code == exits.FINDINGS
    suite = ElementTree.fromstring(result.out)
    suite = suite if suite.tag == "testsuite" else suite[0]
    cases = suite.findall("testcase")
    assert len(cases) == len({rule.code for rule in (*OF_DEFAULT, *OF_JE)})
    said = [ElementTree.tostring(case).decode() for case in cases if case.find("failure") is not None]
    failed = {code for text in said for code in re.findall(r"JE-\w+-\d+", text)[:1]}
    assert failed == {"JE-LOG-001", "JE-LOG-021"}
    assert suite.get("failures") == "2"
    assert ElementTree.fromstring(run("verify", clean, "--format", "junit").out).find(".//failure") is None


def test_sarif(damaged: Path, clean: Path) -> None:
    result = run("verify", damaged, "--format", "sarif")
    log = json.loads(result.out)
    assert log["version"] == "2.1.0"
    (sarif,) = log["runs"]
    assert {rule["id"] for rule in sarif["tool"]["driver"]["rules"]} == {rule.code for rule in (*OF_DEFAULT, *OF_JE)}
    assert {r["ruleId"]: r["level"] for r in sarif["results"]} == {
        "JE-LOG-001": "error", "JE-LOG-021": "warning", "JE-TAIL-001": "note",
    }  # fmt: skip
    assert json.loads(run("verify", clean, "--format", "sarif").out)["runs"][0]["results"] == []


def test_prometheus(damaged: Path, clean: Path) -> None:
    """Every line parses; each severity has a series, so that an alert can name it while all is well."""
    for env, errors in ((damaged, 1), (clean, 0)):
        text = run("verify", env, "--format", "prometheus").text
        assert text.endswith("\n")
        values = {}
        for line in text.splitlines():
            if line.startswith("#"):
                assert re.fullmatch(r"# (HELP|TYPE) jetool_\w+ .+", line)
                continue
            matched = re.fullmatch(r'(jetool_\w+)(\{(?:\w+="[^"\n]*",?)*\})? (-?[0-9.e+]+)', line)
            assert matched, line
            values[matched[1] + (matched[2] or "")] = float(matched[3])
        by_code = {key: value for key, value in values.items() if 'code="JE-LOG-001"' in key}
        assert sum(by_code.values()) == errors, text
        totals = [key for key in values if key.startswith("jetool_environment_findings{")]
        assert [severity for severity in SEVERITIES if any(f'"{severity}"' in key for key in totals)] == [*SEVERITIES]
        assert all(value for key, value in values.items() if key.startswith("jetool_findings{"))


def test_strict(warned: Path, damaged: Path, clean: Path, tmp_path: Path) -> None:
    """Warnings alone: 0, or 8 with --strict. Errors stay 1, notes stay 0."""
    assert run("verify", warned).code == exits.DONE
    assert run("verify", warned, "--strict").code == exits.WARNINGS
    assert run("verify", damaged, "--strict").code == exits.FINDINGS
    assert run("verify", clean, "--strict").code == exits.DONE
    torn = whole()
    torn["00000005.jdb"] = torn["00000005.jdb"][:-1]
    assert run("verify", put(tmp_path / "torn", torn), "--strict").code == exits.DONE


def test_one_level_alone_sees_its_own(damaged: Path) -> None:
    assert run("verify", damaged, "--tail").code == exits.DONE
    assert run("verify", damaged, "--log").code == exits.FINDINGS


def test_a_newer_log_version(tmp_path: Path) -> None:
    log = LogWriter(rooted=False)
    data = bytearray(log.now.data)
    data[-4:] = (27).to_bytes(4, "little")
    from tests.support.logs.golden_logs import right_checksum

    data[:4] = right_checksum(bytes(data), 17).to_bytes(4, "little")
    env = put(tmp_path / "newer", {"00000000.jdb": bytes(data)})
    for command in (("verify",), ("info",), ("vlsn", "map"), ("dump-log",)):
        result = run(*command, env, "--json")
        assert result.code == exits.UNSUPPORTED, command
        assert "27" in result.err


@pytest.mark.parametrize("command", [("verify",), ("info",), ("vlsn", "map"), ("vlsn", "gaps"), ("dump-log",)])
def test_nothing_there(tmp_path: Path, command: tuple[str, ...]) -> None:
    """A missing directory, an empty one, one without a log, a file: 4, and a message that helps."""
    (tmp_path / "empty").mkdir()
    put(tmp_path / "other", {"readme.txt": b"x"})
    (tmp_path / "file").write_bytes(b"x")
    for name, told in (
        ("missing", "no such directory"),
        ("empty", "an empty directory"),
        ("other", "1 other file"),
        ("file", "not a directory"),
    ):
        result = run(*command, tmp_path / name, "--json")
        assert result.code == exits.NOT_FOUND, (name, result)
        assert told in result.err
        assert result.out == b""


def test_an_unreadable_file(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is checked; the run is incomplete (7), which weighs more than damage."""
    ordinary = DiskStorage.open

    def refuse(storage: DiskStorage, path: str) -> ReadFile:
        if path == "00000002.jdb":
            raise StorageError("cannot read: permission denied", file=path)
        return ordinary(storage, path)

    monkeypatch.setattr(DiskStorage, "open", refuse)
    result: Result = run("verify", clean, "--json")
    assert result.code == exits.INCOMPLETE
    assert "JE-LOG-020" in [f["code"] for f in result.json()["findings"]]
    assert result.json()["summary"]["files"] == 5


def test_several_jobs(damaged: Path) -> None:
    assert run("verify", damaged, "--json", "--jobs", "2") == run("verify", damaged, "--json")


def test_a_directory_that_looks_like_a_file_is_none(clean: Path) -> None:
    shutil.copytree(clean, clean / "00000009.jdb")
    assert run("verify", clean).code == exits.DONE


def test_errors_are_json_too(tmp_path: Path) -> None:
    assert_valid_error(run("verify", tmp_path / "missing", "--json"))


def test_full_walks_over_the_trees(tmp_path: Path) -> None:
    env = written(tmp_path, sound())
    result = run("verify", env, "--full", "--json")
    assert result.code == exits.DONE
    assert_valid("verify", result.out)
    summary = result.json()["summary"]
    assert summary["checked"] == ["log", "tail", "tree", "refs", "data", "space", "rep"]
    assert summary["not_checked"] == ["bodies of obsolete entries"]
    assert summary["databases"] == 10
    assert summary["records"] > 800
    assert "nodes" not in run("verify", env, "--json").json()["summary"]


def test_damage_in_a_tree_names_database_and_key(tmp_path: Path) -> None:
    env = written(tmp_path, spoiled(missing_file))
    assert run("verify", env).code == exits.DONE
    assert run("verify", env, "--tree").code == exits.DONE
    result = run("verify", env, "--refs", "--json")
    assert result.code == exits.FINDINGS
    assert_valid("verify", result.out)
    (finding,) = result.json()["findings"]
    assert (finding["code"], finding["db"], finding["file"]) == ("JE-REF-001", "large", "0000004d.jdb")
    assert bytes.fromhex(finding["key"]).startswith(b"common/")
    assert "db large" in run("verify", env, "--refs").text


def test_trees_that_cannot_be_recovered_are_named_as_not_checked(tmp_path: Path) -> None:
    files = whole()
    del files["00000004.jdb"]
    result = run("verify", put(tmp_path / "env", files), "--full", "--json")
    # What was found is a result; the summary says what could not be looked at.
    assert result.code == exits.FINDINGS
    assert_valid("verify", result.out)
    report = result.json()
    assert {"JE-LOG-010", "JE-TREE-001"} <= {finding["code"] for finding in report["findings"]}
    assert report["summary"]["checked"] == ["log", "tail"]
    assert {"trees (recovery fails)", "replication index (recovery fails)"} <= set(report["summary"]["not_checked"])


def test_quick_reads_the_end_only(clean: Path) -> None:
    summary = run("verify", clean, "--quick", "--json").json()["summary"]
    assert summary["files"] == 1
    assert summary["checked"] == ["tail"]
    assert summary == run("verify", clean, "--tail", "--json").json()["summary"]


def written(path: Path, storage: MemoryStorage) -> Path:
    """An environment of the memory as a directory."""
    return put(path / "env", {name: data for name, data in storage.contents().items() if name.endswith(".jdb")})


def test_every_level_of_trees_sees_commits_after_damage() -> None:
    """The trees are those that recovery finds, and that ends before three intact transactions."""
    env = named("je-18.3.20/corrupt-middle").path / "env"
    for level in ("--tree", "--refs", "--data", "--space"):
        done = run("verify", env, level, "--json")
        assert done.code == 1, level
        assert [one["code"] for one in done.json()["findings"]] == ["JE-TAIL-002"], level


def test_everything_is_checked_on_one_recovery() -> None:
    """Replication with the trees; and a restore marker is a finding, not the end of the check."""
    for name, codes in (("ha-rollback-thrice/node2", []), ("restore-required", ["JE-LOG-018"])):
        env = corpus.path() / "je/je-18.3.20" / name / "env"
        result = run("verify", env, "--full", "--json", "--progress", "json")
        assert result.code == (1 if codes else 0)
        assert [finding["code"] for finding in result.json()["findings"] if finding["severity"] == "error"] == codes
        assert "rep" in result.json()["summary"]["checked"]
        steps = [json.loads(line) for line in result.err.splitlines() if line.startswith('{"rec":"progress"')]
        assert [step["done"] for step in steps if step["step"] == "READ_DBMAP_INFO"].count(0) == 1, name
