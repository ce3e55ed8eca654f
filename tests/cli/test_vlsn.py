"""``jetool vlsn map`` and ``gaps``, against DbPrintLog -vd and JE's VLSN index."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from jetool.frame import exits
from tests.support.environments.oracle import Environment, environments, named
from tests.support.harness import Result, assert_valid, run
from tests.support.logs.log_writer import Files, LogWriter, changed, golden

DISTRIBUTION = re.compile(r"file 0x([0-9a-f]+) numRepRecords = ([\d,]+) firstVLSN = ([\d,]+) lastVLSN = ([\d,]+)")


def replicated() -> list[object]:
    """Environments with expected/vlsn-distribution.txt."""
    found: list[Any] = environments()
    return [
        parameter for parameter in found if (parameter.values[0].path / "expected" / "vlsn-distribution.txt").exists()
    ]


def put(path: Path, files: Files) -> Path:
    path.mkdir()
    for name, data in files.items():
        (path / name).write_bytes(data)
    return path


def rows(result: Result) -> list[dict[str, Any]]:
    *found, summary = result.lines()
    assert summary["rec"] == "summary"
    return found


def mapped(env: Path) -> list[dict[str, Any]]:
    result = run("vlsn", "map", env, "--format", "ndjson")
    assert_valid("vlsn map", result.out, "ndjson")
    return rows(result)


def gaps(env: Path) -> list[tuple[int, int, str, str]]:
    result = run("vlsn", "gaps", env, "--format", "ndjson")
    assert_valid("vlsn gaps", result.out, "ndjson")
    found = [(row["first_vlsn"], row["last_vlsn"], row["after_file"], row["before_file"]) for row in rows(result)]
    assert result.code == (exits.FINDINGS if found else exits.DONE)
    assert all(row["count"] == row["last_vlsn"] - row["first_vlsn"] + 1 for row in rows(result))
    return found


@pytest.mark.parametrize("environment", replicated())
def test_map_is_je_s_distribution(environment: Environment) -> None:
    """Per file. DbPrintLog counts invisible entries too, and JE 25 takes 0 for the first VLSN of a file header."""
    expected = {}
    for line in environment.expected("vlsn-distribution.txt").decode().splitlines():
        if matched := DISTRIBUTION.fullmatch(line):
            number, *counts = matched.groups()
            expected[f"{int(number, 16):08x}.jdb"] = [int(count.replace(",", "")) for count in counts]
    found = mapped(environment.path / "env")
    assert {row["file"] for row in found if row["count"] + row["invisible"]} == set(expected)
    everything: dict[str, list[int]] = {row["file"]: [] for row in found}
    for entry in environment.good_entries():
        if entry.replicated:
            everything[f"{entry.lsn >> 32:08x}.jdb"].append(entry.vlsn)
    for row in found:
        if row["file"] not in expected:
            assert (row["first_vlsn"], row["last_vlsn"]) == (None, None)
            continue
        count, first, last = expected[row["file"]]
        assert row["count"] + row["invisible"] == count
        assert row["first_vlsn"] == (first or 1)
        assert everything[row["file"]][-1] == last
        assert row["last_vlsn"] == last or row["invisible"]


@pytest.mark.parametrize("environment", replicated())
def test_map_is_je_s_index(environment: Environment) -> None:
    """Visible VLSNs per file, against the LSN of every VLSN that JE's index gives; an open rollback is yet to come."""
    expected: Counter[str] = Counter()
    bounds: dict[str, tuple[int, int]] = {}
    for line in environment.expected("vlsn-lsn.csv").decode().split()[1:]:
        vlsn, lsn = line.split(",")
        name = f"{int(lsn.split('/')[0], 16):08x}.jdb"
        expected[name] += 1
        bounds[name] = (bounds.get(name, (int(vlsn), 0))[0], int(vlsn))
    names = [entry.type_name for entry in environment.good_entries()]
    is_open = names.count("RollbackStart") > names.count("RollbackEnd")
    literal = "four-periods" in environment.name
    for row in mapped(environment.path / "env"):
        if row["file"] not in expected:
            assert row["count"] == 0
        elif is_open or literal:
            assert row["count"] >= expected[row["file"]]
            assert row["first_vlsn"] == bounds[row["file"]][0]
        else:
            assert row["count"] == expected[row["file"]]
            assert (row["first_vlsn"], row["last_vlsn"]) == bounds[row["file"]]


@pytest.mark.parametrize("environment", replicated())
def test_real_logs_have_no_gap(environment: Environment) -> None:
    assert gaps(environment.path / "env") == []


def test_a_stand_alone_environment(tmp_path: Path) -> None:
    env = put(tmp_path / "env", golden("je-17/empty"))
    assert [(row["first_vlsn"], row["count"]) for row in mapped(env)] == [(None, 0)]
    result = run("vlsn", "gaps", env)
    assert result.code == exits.DONE
    assert "not replicated" in result.err


def stream(*files: range) -> LogWriter:
    """A log of as many files, each with a commit for each VLSN."""
    log = LogWriter()
    for number, vlsns in enumerate(files):
        if number:
            log.next_file()
        for vlsn in vlsns:
            log.commit(vlsn)
            log.trace()
    return log


def test_a_file_removed(tmp_path: Path) -> None:
    files = stream(range(3, 10), range(10, 20), range(20, 30)).files
    assert gaps(put(tmp_path / "whole", files)) == []
    del files["00000001.jdb"]
    assert gaps(put(tmp_path / "cut", files)) == [(10, 19, "00000000.jdb", "00000002.jdb")]


def test_several_files_removed_from_a_real_log(tmp_path: Path) -> None:
    """The distribution of vlsn-range says what file 0x31 and files 0x35 and 0x36 held."""
    env = named("je-18.3.20/vlsn-range").path / "env"
    files = {path.name: path.read_bytes() for path in env.glob("*.jdb")}
    for number in (0x31, 0x35, 0x36):
        del files[f"{number:08x}.jdb"]
    assert gaps(put(tmp_path / "env", files)) == [
        (2802, 2861, "00000030.jdb", "00000032.jdb"),
        (3002, 3137, "00000034.jdb", "00000038.jdb"),
    ]


def test_gaps_in_a_file(tmp_path: Path) -> None:
    """One missing in the middle, and an entry made invisible that no rollback covers."""
    log = LogWriter()
    for vlsn in (1, 2, 4, 5, 9):
        log.commit(vlsn)
    name = "00000000.jdb"
    assert gaps(put(tmp_path / "a", log.files)) == [(3, 3, name, name), (6, 8, name, name)]
    log = stream(range(1, 6))
    second = log.now.offsets[4]
    hidden = changed(log.files, name, second + 5, bytes((log.now.data[second + 5] | 0x10,)))
    assert gaps(put(tmp_path / "b", hidden)) == [(2, 2, name, name)]
    assert [(row["count"], row["invisible"]) for row in mapped(tmp_path / "b")] == [(4, 1)]


@pytest.mark.parametrize("files", [1, 2, 3])
def test_vlsns_used_again_behind_a_rollback(tmp_path: Path, files: int) -> None:
    """Two periods, one after the other, in one file or over several."""
    log = LogWriter()
    matchpoint = log.commit(5)
    log.stream(6, invisible=True)
    if files > 1:
        log.next_file()
    log.stream(7, invisible=True)
    start = log.rollback_start(matchpoint, 5)
    log.rollback_end(matchpoint, start)
    matchpoint = log.commit(6)
    log.stream(7, invisible=True)
    if files > 2:
        log.next_file()
    log.stream(8, invisible=True)
    start = log.rollback_start(matchpoint, 6)
    log.rollback_end(matchpoint, start)
    for vlsn in (7, 8, 9):
        log.commit(vlsn)
    env = put(tmp_path / "env", log.files)
    assert gaps(env) == []
    found = mapped(env)
    assert sum(row["count"] for row in found) == 5
    assert sum(row["invisible"] for row in found) == 4
    assert found[0]["first_vlsn"] == 5
    assert found[-1]["last_vlsn"] == 9


def test_a_gap_behind_a_rollback(tmp_path: Path) -> None:
    """The VLSN of a rolled-back entry that nobody wrote again, with later ones: missing, not just hidden."""
    log = LogWriter()
    matchpoint = log.commit(5)
    log.stream(6, invisible=True)
    start = log.rollback_start(matchpoint, 5)
    log.rollback_end(matchpoint, start)
    log.commit(7)
    assert gaps(put(tmp_path / "env", log.files)) == [(6, 6, "00000000.jdb", "00000000.jdb")]


def test_damage_is_stepped_over(tmp_path: Path) -> None:
    """VLSNs in it are missing, and the run says why: 1, with or without a gap."""
    log = stream(range(1, 4), range(4, 8))
    bad = changed(log.files, "00000000.jdb", log.makers[0].offsets[4] + 16, b"?")
    result = run("vlsn", "map", put(tmp_path / "env", bad), "--format", "ndjson")
    assert result.code == exits.FINDINGS
    assert [row["count"] for row in rows(result)] == [2, 4]
    assert "damage" in result.err
    assert gaps(tmp_path / "env") == [(2, 2, "00000000.jdb", "00000000.jdb")]


def test_a_torn_tail_is_no_damage(tmp_path: Path) -> None:
    log = stream(range(1, 4))
    torn = {name: data[:-3] for name, data in log.files.items()}
    result = run("vlsn", "map", put(tmp_path / "env", torn), "--json")
    assert (result.code, result.err) == (exits.DONE, "")
    assert_valid("vlsn map", result.out)


def test_several_processes_say_the_same(tmp_path: Path) -> None:
    env = put(tmp_path / "env", stream(range(1, 5), range(5, 9), range(12, 14)).files)
    for name in ("map", "gaps"):
        assert run("vlsn", name, env, "--json", "--jobs", "2") == run("vlsn", name, env, "--json")
