"""``jetool info``: what it prints and how it ends. The values themselves: ``tests/inspect/test_survey.py``."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jetool.frame import exits
from tests.support import corpus
from tests.support.damage.spoiled_slots import branch_to_record
from tests.support.damage.spoiled_trees import sound, spoiled
from tests.support.environments.directories import put
from tests.support.environments.oracle import Environment, environments, named
from tests.support.harness import assert_valid, run
from tests.support.logs.log_writer import LogWriter, changed, golden, whole

GOLDEN = Path(__file__).parent.parent / "golden"

# Damage or a missing file where recovery reads, or after which committed work stands; the end of the rest is clean.
FOUND = {"corrupt-middle", "corrupt-older-file", "missing-file"}


@pytest.mark.parametrize("environment", environments())
def test_every_fixture(environment: Environment) -> None:
    env = environment.path / "env"
    result = run("info", env, "--json")
    assert_valid("info", result.out)
    expected = exits.FINDINGS if environment.path.name in FOUND else exits.DONE
    assert result.code == expected, result.err
    found = result.json()
    files = [path for path in env.glob("**/*.jdb") if path.stem != "7fffffff"]
    assert found["files"] == len(files)
    assert found["bytes"] == sum(path.stat().st_size for path in files)
    assert found["open_for_writing_by"] is None
    versions = {"3.3.98": 6, "7.3.8": 14, "7.5.11": 15, "18.3.20": 17, "25.3.17": 26}
    if environment.path.name != "upgraded":
        assert [run["version"] for run in found["log_versions"]] == [versions[environment.release]]
    assert_valid("info", run("info", env, "--format", "ndjson").out, "ndjson")


def test_an_upgraded_environment() -> None:
    found = run("info", named("je-18.3.20/upgraded").path / "env", "--json").json()
    assert [run["version"] for run in found["log_versions"]] == [14, 15, 17]
    assert found["initial_log_version"] in (None, -1, 14)


def test_a_restore_marker() -> None:
    found = run("info", named("je-18.3.20/restore-required").path / "env", "--json").json()
    assert found["restore_required"]
    assert found["end_of_log"].startswith("0x")


def test_a_file_missing_from_the_recovery_interval(tmp_path: Path) -> None:
    """In the middle, and the one that holds firstActive. A gap before it is no matter of recovery."""
    files = whole()
    del files["00000003.jdb"]
    result = run("info", put(tmp_path / "middle", files))
    assert result.code == exits.FINDINGS
    assert "log file missing that recovery reads in 00000003.jdb" in result.err
    log = LogWriter()
    first_active = log.trace()
    log.next_file()
    log.checkpoint_end(first_active)
    gone = {name: data for name, data in log.files.items() if name != "00000000.jdb"}
    result = run("info", put(tmp_path / "front", gone))
    assert result.code == exits.FINDINGS
    assert "00000000.jdb" in result.err
    files = whole()
    del files["00000001.jdb"]
    assert run("info", put(tmp_path / "before", files)).code == exits.FINDINGS


def test_damage_in_the_recovery_interval(tmp_path: Path) -> None:
    env = put(tmp_path / "env", changed(whole(), "00000003.jdb", 500, b"????"))
    result = run("info", env, "--json")
    assert result.code == exits.FINDINGS
    assert "00000003.jdb" in result.err
    assert f"jetool verify {env}" in result.err
    before = put(tmp_path / "before", changed(whole(), "00000000.jdb", 500, b"????"))
    assert run("info", before).code == exits.DONE


def test_a_middle_file_that_lost_its_end(tmp_path: Path) -> None:
    """Wherever it was cut, between entries too: the header of the next file names the last entry."""
    files = whole()
    size = len(files["00000000.jdb"])
    for cut in (size // 3, size // 2, size - 40, size - 1):
        env = put(tmp_path / str(cut), files | {"00000000.jdb": files["00000000.jdb"][:cut]})
        for words in (("info", env), ("info", env, "--quick")):
            result = run(*words)
            assert result.code == exits.FINDINGS
            assert "the next one names a last entry that is not there" in result.err
            assert "in 00000000.jdb at 0x0/0x" in result.err


def test_no_healthy_environment_lost_an_end() -> None:
    codes = {path.name: run("info", path / "env", "--quick").code for path in (corpus.path() / "je-healthy").glob("*/")}
    assert len(codes) > 30
    assert set(codes.values()) == {exits.DONE}


def test_a_torn_tail(tmp_path: Path) -> None:
    result = run("info", put(tmp_path / "env", golden()), "--json")
    assert (result.code, result.err) == (exits.DONE, "")
    assert result.json()["end_of_log"] == "0x5/0xc27"
    assert result.json()["torn_tail_bytes"] == len(golden()["00000005.jdb"]) - 0xC27


@pytest.mark.parametrize("size", [0, 20, 38])
def test_hardly_anything_there(tmp_path: Path, size: int) -> None:
    """A first file of no bytes, of half a header, of a header alone: told, not refused."""
    data = golden("je-17/empty")["00000000.jdb"][:size]
    result = run("info", put(tmp_path / "env", {"00000000.jdb": data}), "--json")
    assert result.code == exits.DONE
    assert_valid("info", result.out)
    found = result.json()
    assert found["last_checkpoint"] is None
    assert found["end_of_log"] == ("0x0/0x26" if size == 38 else None)


LOCK = """
import fcntl, sys
handle = open(sys.argv[1], "r+b")
fcntl.lockf(handle, fcntl.LOCK_EX, 1, 0)
print("locked", flush=True)
sys.stdin.read()
"""


def test_the_holder_of_the_lock(tmp_path: Path) -> None:
    """Another process has byte 0 of je.lck, as a JVM that writes does. Every reader works all the same."""
    env = tmp_path / "env"
    shutil.copytree(GOLDEN / "je-17" / "ha-rollback", env)
    (env / "je.lck").touch()
    assert run("info", env, "--json").json()["open_for_writing_by"] is None
    with subprocess.Popen(
        [sys.executable, "-c", LOCK, env / "je.lck"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        found = run("info", env, "--json")
        assert found.json()["open_for_writing_by"] == holder.pid
        assert str(holder.pid) in run("info", env).text
        for command in (("verify",), ("vlsn", "map"), ("vlsn", "gaps"), ("dump-log",)):
            assert run(*command, env).code == exits.DONE, command
        # It still has the lock: no reader took it away or gave it back.
        assert run("info", env, "--json").json()["open_for_writing_by"] == holder.pid
        holder.communicate(b"")
    assert run("info", env, "--json").json()["open_for_writing_by"] is None


def test_quick_leaves_out_what_needs_a_second_look() -> None:
    env = GOLDEN / "je-17" / "ha-rollback"
    whole, quick = (run("info", str(env), "--json", *words).json() for words in ((), ("--quick",)))
    assert quick["recovery"] is None
    assert quick["first_vlsn"] is None
    assert {name for name in whole if whole[name] != quick[name]} <= {
        "why", "recovery", "first_vlsn", "last_vlsn", "open_rollbacks", "reserved_files", "reserved_bytes"
    }  # fmt: skip
    assert_valid("info", run("info", str(env), "--json", "--quick").out)


@pytest.mark.parametrize(
    ("name", "reserved"),
    [
        ("je-healthy/rep-one-halted", 20),
        ("je-healthy/reserved-halted", 2),
        ("je/je-18.3.20/vlsn-range", 13),
        ("je-healthy/header-only", 0),
    ],
)
def test_reserved_files(name: str, reserved: int) -> None:
    """As the cleaner sees them, which opens the environment."""
    env = corpus.path() / name / "env"
    found = run("info", env, "--json").json()
    kept = [file for file in run("space", env, "--json").json()["records"] if file["state"] == "reserved"]
    assert found["reserved_files"] == reserved == len(kept)
    assert found["reserved_bytes"] == sum(file["size_bytes"] for file in kept)
    assert run("info", env, "--quick", "--json").json()["reserved_files"] is None


def test_stats(tmp_path: Path) -> None:
    env = put(tmp_path / "env", {name: data for name, data in sound().contents().items() if name.endswith(".jdb")})
    result = run("info", env, "--stats", "--json")
    assert result.code == exits.DONE
    assert_valid("info", result.out)
    trees = {tree["name"]: tree for tree in result.json()["trees"]}
    assert trees["large"]["records"] == 200
    assert trees["large"]["depth"] == len(trees["large"]["nodes_by_level"]) == 4
    assert "trees" not in run("info", env, "--json").json()
    assert "nodes by level" in run("info", env, "--stats").text


def test_stats_of_damaged_trees_end_with_1(tmp_path: Path) -> None:
    storage = spoiled(branch_to_record)
    env = put(tmp_path / "env", {name: data for name, data in storage.contents().items() if name.endswith(".jdb")})
    assert run("info", env).code == exits.DONE
    result = run("info", env, "--stats", "--json")
    assert result.code == exits.FINDINGS
    assert_valid("info", result.out)
    assert "counts are too low" in result.err


def test_a_first_file_missing_that_recovery_comes_upon(tmp_path: Path) -> None:
    """No gap between files says so; it holds a node of the mapping tree."""
    files = whole()
    del files["00000000.jdb"]
    done = run("info", put(tmp_path / "env", files))
    assert done.code == exits.FINDINGS
    assert "log file missing that the trees lead into in 00000000.jdb" in done.err


@pytest.mark.parametrize("command", [("info",), ("recover", "-n")])
def test_a_file_missing_that_recovery_does_without_and_records_lie_in(tmp_path: Path, command: tuple[str, ...]) -> None:
    """A file that was deleted by hand; those that JE has cleaned leave the same gap and are no finding."""
    files = whole()
    del files["00000001.jdb"]
    env = tmp_path / "env"
    env.mkdir()
    for name, data in files.items():
        (env / name).write_bytes(data)
    done = run(command[0], env, *command[1:])
    assert "log file missing that the trees lead into in 00000001.jdb" in done.err
    assert done.code == (exits.FINDINGS if command == ("info",) else exits.DONE)
    for name in ("stub-cleaned", "reserved-halted", "comparators-cleaned", "up-3-18-write-halt-7"):
        done = run(command[0], corpus.path() / "je-healthy" / name / "env", *command[1:])
        assert done.code == exits.DONE, (name, done.err)
        assert "missing" not in done.err
