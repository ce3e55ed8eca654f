"""``recover`` and ``undo``: JE's result on every fixture, a preview without a trace, the interlock, the way back."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from engine.db.environment import Environment as Engine
from engine.format.entry.file_header import FileHeader, encode_file_header
from engine.format.entry.trace import Trace, encode_trace
from engine.format.entry_types import FILE_HEADER, TRACE
from engine.format.fast.header import sealed
from engine.format.versions import WRITTEN_VERSION
from tests.rescue.salvage_drill import written
from tests.support.damage.mutations import files_of
from tests.support.environments.copies import copy_of, expected_dumps, state_of
from tests.support.environments.oracle import Environment, environments, named
from tests.support.harness import assert_valid, assert_valid_error, run, spawn

CORRUPT = "je-18.3.20/corrupt-middle"
TORN = "je-18.3.20/torn-garbage-tail"
# Exit codes of environments that are not recovered.
REFUSED = {
    "missing-file": 7, "corrupt-older-file": 7, "restore-required": 3, "rollback-overlap": 7,
    "rollback-commit-inside": 7, "corrupt-middle": 3,
}  # fmt: skip


def expected_code(environment: Environment) -> int:
    return REFUSED.get(environment.path.name, 0)


@pytest.mark.parametrize("environment", environments())
def test_every_environment(environment: Environment, tmp_path: Path) -> None:
    env = copy_of(environment, tmp_path / "env")
    before, original = state_of(tmp_path), contents(env)
    preview = run("recover", env, "-n", "--json")
    assert state_of(tmp_path) == before
    result = run("recover", env, "--json")
    code = expected_code(environment)
    assert (preview.code, result.code) == (code, code), result.err
    if code:
        assert contents(env) == original
        assert_valid_error(result)
        return
    assert_valid("recover", result.out)
    assert without_run(preview.json()) == without_run(result.json())
    check_recovered(environment, env, result.json())
    took_back(env, original)


def contents(env: Path) -> dict[str, bytes]:
    """Every file but the lock file, by its path in the environment."""
    return {str(path.relative_to(env)): path.read_bytes() for path in env.rglob("*") if
            path.is_file() and path.name != "je.lck"}  # fmt: skip


def without_run(report: dict[str, Any]) -> dict[str, Any]:
    left = ("dry_run", "phases", "backup", "saved_bytes")
    return {name: value for name, value in report.items() if name not in left}


def check_recovered(environment: Environment, env: Path, report: dict[str, Any]) -> None:
    for name, data in expected_dumps(environment).items():
        assert run("dump", env, "--db", name).out == data, name
    expected = json.loads(environment.expected("recovery.json"))
    if expected.get("opened") and "recovery" in expected:
        found = expected["recovery"]
        assert report["ckpt_end_lsn"] == found["checkpointEndLsn"]
        assert report["ckpt_start_lsn"] == found["checkpointStartLsn"]
        assert report["first_active_lsn"] == found["firstActiveLsn"]
        assert report["root_lsn"] == found["useRootLsn"]
        assert report["end_lsn_before"] == found["nextAvailableLsn"]
        assert report["txns_resurrected"] == sorted(found.get("resurrectedTxnIds", ()))
    again = run("recover", env, "--json").json()
    assert again["closing_ckpt_end_lsn"] is None
    assert again["end_lsn_before"] == again["end_lsn_after"] == report["end_lsn_after"]


def took_back(env: Path, original: dict[str, bytes]) -> None:
    if not (env.parent / "env.jetool-backup").exists():
        return
    assert run("undo", env, "-n").code == 0
    result = run("undo", env, "--json")
    assert result.code == 0, result.err
    assert_valid("undo", result.out)
    assert contents(env) == original
    again = run("undo", env)
    assert (again.code, contents(env)) == (0, original)
    assert "already" in again.err


def test_the_interlock_says_what_would_be_lost(tmp_path: Path) -> None:
    env = copy_of(named(CORRUPT), tmp_path / "env")
    error = run("recover", env, "--json").error()
    assert error["exit_code"] == 3
    assert error["lsn"] == "0x5/0x80e"
    assert error["file"].endswith("00000005.jdb")
    assert error["what"].startswith("3 committed transactions")
    assert "1124 bytes" in error["found"]


@pytest.mark.parametrize("option", ["--accept-loss", "--je-default"])
def test_loss_that_is_accepted(tmp_path: Path, option: str) -> None:
    fixture = named(CORRUPT)
    env = copy_of(fixture, tmp_path / "env")
    result = run("recover", env, option, "--backup-dir", tmp_path / "saved", "--json")
    assert result.code == 6
    assert result.json()["commits_lost"] == 3
    assert "given up" in result.err
    for name, data in expected_dumps(fixture).items():
        assert run("dump", env, "--db", name).out == data, name
    assert run("undo", env, "--backup-dir", tmp_path / "saved").code == 0
    for path in (fixture.path / "env").glob("*.jdb"):
        assert (env / path.name).read_bytes() == path.read_bytes()


def test_nothing_is_undone_after_new_writes(tmp_path: Path) -> None:
    env = copy_of(named(TORN), tmp_path / "env")
    assert run("recover", env).code == 0
    assert run("put", env, "k", "v", "--db", "accounts").code == 0
    before = state_of(env)
    result = run("undo", env)
    assert result.code == 3
    assert "changed since" in result.err
    assert state_of(env) == before


def test_saved_bytes_of_other_commands_are_not_undone(tmp_path: Path) -> None:
    env = copy_of(named(TORN), tmp_path / "env")
    assert run("put", env, "k", "v", "--db", "accounts", "--backup-dir", tmp_path / "saved").code == 0
    assert run("undo", env, "--backup-dir", tmp_path / "saved").code == 3


def test_without_saved_bytes(tmp_path: Path) -> None:
    env = copy_of(named(TORN), tmp_path / "env")
    assert run("recover", env, "--backup-dir", "none", "--json").json()["backup"] is None
    assert [path.name for path in tmp_path.iterdir()] == ["env"]
    assert run("undo", env).code == 4


def test_the_lock_excludes(tmp_path: Path) -> None:
    env = copy_of(named("je-18.3.20/txn-crash"), tmp_path / "env")
    with Engine(str(env)):
        result = spawn("recover", env)
        undone = spawn("recover", env, "-n")
    assert result.returncode == 3
    assert b"in use" in result.stderr
    assert undone.returncode == 0


def test_text_names_what_was_done(tmp_path: Path) -> None:
    env = copy_of(named("je-18.3.20/txn-crash"), tmp_path / "env")
    result = run("recover", env)
    assert "REDO_LNS" in result.text
    assert f"jetool undo {env}" in result.err


def test_usage() -> None:
    assert run("recover", "/no/such/place").code == 4
    assert run("recover", "/tmp", "--accept-loss", "--je-default").code == 2


@pytest.mark.parametrize("words", [("recover",), ("checkpoint",)])
def test_a_full_backup_directory_says_that_another_can_be_given(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk the torn tail cannot be saved beside the environment, and cutting it off would make room."""
    env = copy_of(named(TORN), tmp_path / "env")
    before = contents(env)
    write = os.pwrite

    def full(handle: int, data: bytes, offset: int) -> int:
        if ".jetool-backup/" in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(handle, data, offset)

    monkeypatch.setattr(os, "pwrite", full)
    refused = run(*words, env)
    assert refused.code == 7
    assert "env.jetool-backup" in refused.err
    assert "give a directory on another disk with --backup-dir" in refused.err
    assert contents(env) == before
    assert run(*words, env, "--backup-dir", tmp_path / "elsewhere").code == 0


def with_last_file(tmp_path: Path, what: str) -> tuple[Path, str]:
    """An environment after whose files another one was begun, as a kill or a crash leaves it; the name of that one."""
    env = copy_of(named("je-18.3.20/txn-crash"), tmp_path / "env")
    last = max(path.name for path in env.glob("*.jdb"))
    name = f"{int(last[:8], 16) + 1:08x}"
    record = FileHeader(0, int(name, 16), 100, WRITTEN_VERSION)
    header = sealed(FILE_HEADER, 0, 0, encode_file_header(record, WRITTEN_VERSION))
    trace = encode_trace(Trace(0, "x" * 2000), WRITTEN_VERSION)
    content = {
        "stub": header,
        "lost page": bytes(512) + sealed(TRACE, 0, 38, trace) + sealed(TRACE, 0, 512, trace),
        "torn": header + sealed(TRACE, 0, 0, trace)[:-1],
    }[what]
    (env / f"{name}.jdb").write_bytes(content)
    return env, name


@pytest.mark.parametrize("what", ["stub", "lost page", "torn"])
def test_a_last_file_without_an_entry(what: str, tmp_path: Path) -> None:
    """R-LOG-16, D-15: the preview says what happens to it, recover does that, undo brings it back."""
    env, name = with_last_file(tmp_path, what)
    plain = copy_of(named("je-18.3.20/txn-crash"), tmp_path / "plain")
    original = contents(env)
    given_up = 0 if what == "stub" else len(original[f"{name}.jdb"])
    preview = run("recover", env, "-n", "--json").json()
    assert (preview["removed"], preview["set_aside"]) == (
        ([f"{name}.jdb"], []) if what == "stub" else ([], [f"{name}.jdb"])
    )
    assert preview["cut_bytes"] == given_up
    assert contents(env) == original
    result = run("recover", env, "--json")
    assert result.code == 0, result.err
    assert without_run(result.json()) == without_run(preview)
    assert result.json()["end_lsn_before"] == run("recover", plain, "--json").json()["end_lsn_before"]
    assert not (env / f"{name}.jdb").exists()
    assert (env / f"{name}.bad").exists() == (what != "stub")
    assert run("scan", env, "--db", "accounts").out == run("scan", plain, "--db", "accounts").out
    assert run("verify", "--full", env).code == 0
    took_back(env, original)


def test_a_reader_says_that_a_last_file_is_not_seen(tmp_path: Path) -> None:
    env, name = with_last_file(tmp_path, "lost page")
    result = run("scan", env, "--db", "accounts")
    assert result.code == 0
    assert f"{name}.jdb: no entry of that file can be kept" in result.err


def flipped(environment: str, tmp_path: Path, types: tuple[str, ...], back: int) -> tuple[Path, str]:
    """A copy with one byte changed in the entry that has so many of its types after it; the copy and its LSN."""
    env = copy_of(named(environment), tmp_path / "env")
    lines = run("dump-log", env, "--format", "ndjson").lines()
    entry = [line for line in lines if line.get("type") in types][-1 - back]
    file = env / f"{entry['file']:08x}.jdb"
    data = bytearray(file.read_bytes())
    data[entry["offset"] + 25] ^= 0xFF
    file.write_bytes(data)
    return env, entry["lsn"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("release", ["3.3.98", "7.3.8", "7.5.11", "18.3.20", "25.3.17"])
def test_records_outside_transactions_after_damage(release: str, tmp_path: Path) -> None:
    """JE cuts them off in silence; whoever recovers or reads is told of each one."""
    env, lsn = flipped(f"je-{release}/plain-load", tmp_path, ("LN", "INS_LN"), back=3)
    original = contents(env)
    preview = run("recover", env, "-n")
    assert preview.code == 6
    assert f"3 records outside transactions would be given up after a bad entry in {env}" in preview.err
    assert f"at {lsn}" in preview.err
    assert contents(env) == original
    reader = run("dbs", env, "--count")
    assert reader.code == 1
    assert "3 records outside transactions after damage" in reader.err
    names = [row["name"] for row in run("dbs", env, "--json").json()["records"]]
    for words in (
        ("checkpoint", env),
        ("clean", env),
        ("put", env, "--db", names[0], "key", "data"),
        ("delete", env, "--db", names[0], "key"),
    ):
        refused = run(*words)
        assert refused.code == 3, words
        assert "3 records outside transactions stand after a bad entry" in refused.err
        assert f"at {lsn}" in refused.err
        assert "jetool recover" in refused.err
        assert contents(env) == original, words
    done = run("recover", env)
    assert done.code == 6
    assert "3 records outside transactions were given up" in done.err
    assert run("recover", env, "-n").code == 0
    took_back(env, original)


def test_records_of_no_user_after_damage(tmp_path: Path) -> None:
    """What JE logs for itself in a checkpoint is nothing to give up."""
    env, _ = flipped("je-18.3.20/cleaned-closed", tmp_path, ("DbTree",), back=0)
    done = run("recover", env)
    assert (done.code, "given up" in done.err) == (0, False)


@pytest.mark.parametrize("name", ["je-healthy/header-only", "je-healthy/killed-1"])
def test_a_file_missing_before_a_stub(name: str, tmp_path: Path) -> None:
    """The last file holds no entry and the one before it is gone: the log only seems to end earlier (D-18)."""
    env = written(tmp_path, files_of(name))
    assert run("recover", env, "-n").code == 0
    last, before = sorted(env.glob("*.jdb"), reverse=True)[:2]
    assert int(last.stem, 16) == int(before.stem, 16) + 1
    before.unlink()
    files = contents(env)
    for command in (("recover",), ("recover", "-n"), ("checkpoint",), ("dbs", "--count")):
        done = run(command[0], env, *command[1:])
        assert done.code == 7
        assert f"{before.name} is missing" in done.err
    assert contents(env) == files
    assert run("verify", env).code == 1
    assert run("salvage", env, "--to", tmp_path / "saved", "-n").code == 6
