"""``jetool restore``: the plan, the place, deltas and the way back, groups, and being killed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from engine.storage.disk import DiskStorage
from jetool.frame import exits
from tests.support.damage.killing import run_killed
from tests.support.environments.copies import copy_of, state_of
from tests.support.environments.oracle import named
from tests.support.harness import assert_valid, run

NODE = named("je-18.3.20/ha-rollback").path / "node1" / "env"
ENV = named("je-18.3.20/torn-base").path / "env"
GROUP = ("--group", "NEW", "--node", "n9", "--address", "here:5099")


@pytest.fixture
def backups(tmp_path: Path) -> Path:
    assert run("backup", ENV, tmp_path / "backups").code == exits.DONE
    return tmp_path / "backups"


def logs(env: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in env.glob("*.jdb")}


def dumped(env: Path) -> list[bytes]:
    names = [row["name"] for row in run("dbs", env, "--json").json()["records"]]
    return [run("dump", env, "--db", name).out for name in names]


def test_the_whole_backup(backups: Path, tmp_path: Path) -> None:
    planned = run("restore", backups, tmp_path / "env", "-n", "--json")
    assert_valid("restore", planned.out)
    assert not (tmp_path / "env").exists()
    done = run("restore", backups, tmp_path / "env", "--json")
    assert_valid("restore", done.out)
    said = done.json()
    assert (done.code, {name for name in said if said[name] != planned.json()[name]}) == (exits.DONE, {"dry_run"})
    assert (said["as"], said["group"], said["kept_files"], said["saved_in"]) == ("alone", None, 0, None)
    assert dumped(tmp_path / "env") == dumped(ENV)
    assert run("verify", tmp_path / "env", "--full").code == 0
    again = run("restore", backups, tmp_path / "env", "--json")
    assert (again.code, again.json()["copied_files"]) == (exits.DONE, 0)
    assert run("restore", backups, tmp_path / "env", "--to-txn", "151").code in (exits.REFUSED, exits.NOT_FOUND)
    (tmp_path / "env" / "00000000.jdb").unlink()
    assert run("restore", backups, tmp_path / "env").code == exits.REFUSED
    assert run("restore", backups, tmp_path / "none" / "env").code == exits.NOT_FOUND


@pytest.mark.parametrize(
    "words", [("--to-vlsn", "100"), ("--to-lsn", "0x0/0x211a"), ("--to-time", "2026-11-20T10:44:47Z")]
)
def test_points(words: tuple[str, str], tmp_path: Path) -> None:
    run("backup", NODE, tmp_path / "backups")
    done = run("restore", tmp_path / "backups", tmp_path / "env", *words, "--json")
    assert done.code == exits.DONE, done.err
    assert_valid("restore", done.out)
    said = done.json()
    assert (said["as"], said["group"], said["rejoins"]) == ("member", "JOURNAL_GROUP", "yes")
    assert said["commits_left_out"] > 0
    assert "never start both" in done.err
    kind = words[0].removeprefix("--to-")
    assert said["point"] == f"{kind}:{words[1].replace('Z', '.000Z')}"
    as_of = run("dbs", NODE, "--as-of", f"{kind}:{words[1]}", "--count", "--json").json()["records"]
    found = run("dbs", tmp_path / "env", "--count", "--json").json()["records"]
    assert [(row["name"], row["records"]) for row in found] == [(row["name"], row["records"]) for row in as_of]


def test_a_delta_and_the_way_back(backups: Path, tmp_path: Path) -> None:
    env = copy_of(named("je-18.3.20/torn-base"), tmp_path / "env")
    (env / "00000002.jdb").write_bytes((env / "00000002.jdb").read_bytes()[:-5])
    (env / "00000044.jdb").write_bytes(b"of another log")
    before = logs(env)
    refused = run("restore", backups, env, "--delta")
    assert refused.code == exits.REFUSED
    assert "--yes" in refused.err
    assert "1 file removed, 2 files copied from the backup" in refused.err
    assert logs(env) == before
    planned = run("restore", backups, env, "--delta", "-n", "--json").json()
    done = run("restore", backups, env, "--delta", "--yes", "--json")
    said = done.json()
    assert {name for name in said if said[name] != planned[name]} == {"dry_run", "saved_in"}
    assert (said["copied_files"], said["kept_files"], said["removed_files"]) == (2, len(before) - 3, ["00000044.jdb"])
    assert dumped(env) == dumped(ENV)
    assert run("verify", env, "--full").code == 0
    # Nothing is left to do.
    again = run("restore", backups, env, "--delta", "--json")
    assert (again.code, again.json()["copied_files"]) == (exits.DONE, 0)
    undone = run("undo", env, "--backup-dir", said["saved_in"], "--json")
    assert undone.json()["command"] == "restore"
    assert logs(env) == before


def test_a_group_of_its_own(tmp_path: Path) -> None:
    run("backup", NODE, tmp_path / "backups")
    done = run("restore", tmp_path / "backups", tmp_path / "env", "--as", "new", *GROUP, "--json")
    assert (done.code, done.json()["as"], done.json()["group"]) == (exits.DONE, "new", "NEW")
    shown = run("group", "show", tmp_path / "env", "--json").json()
    assert (shown["name"], [member["name"] for member in shown["members"]]) == ("NEW", ["n9"])
    assert run("verify", tmp_path / "env", "--full").code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--as", "new"), GROUP, ("--to-vlsn", "5", "--to-txn", "7"), ("--to-lsn", "ckpt"), ("--to-lsn", "17"),
        ("--as", "new", *GROUP), ("--as", "other"), ("--to-time", "soon"),
    ],
)  # fmt: skip
def test_what_makes_no_sense(words: tuple[str, ...], backups: Path, tmp_path: Path) -> None:
    assert run("restore", backups, tmp_path / "env", *words).code == exits.USAGE
    assert not (tmp_path / "env").exists()


def test_no_room(backups: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DiskStorage, "free_bytes", lambda _: 1000)
    done = run("restore", backups, tmp_path / "env")
    assert done.code == exits.INCOMPLETE
    assert "there is no room for the environment" in done.err
    # Not even an empty directory is left.
    assert not (tmp_path / "env").exists()


def test_nothing_to_restore(backups: Path, tmp_path: Path) -> None:
    env = tmp_path / "env"
    assert run("restore", tmp_path / "none", env).code == exits.NOT_FOUND
    assert run("restore", backups, env, "--backup", "1999").code == exits.NOT_FOUND
    assert run("restore", backups, env, "--to-txn", "999999").code == exits.NOT_FOUND
    assert run("restore", backups, env, "--to-time", "2099-01-01").code == exits.NOT_FOUND
    assert not env.exists()


def test_links_and_files_in_the_way(backups: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    assert run("restore", backups, tmp_path / "file").code == exits.REFUSED
    env = copy_of(named("je-18.3.20/torn-base"), tmp_path / "env")
    (tmp_path / "victim").write_bytes((env / "00000001.jdb").read_bytes())
    (env / "00000001.jdb").unlink()
    (env / "00000001.jdb").symlink_to(tmp_path / "victim")
    (env / "00000002.tmp").symlink_to(tmp_path / "file")
    assert run("restore", backups, env, "--delta", "--yes").code == exits.INCOMPLETE
    assert (tmp_path / "file").read_text() == "precious"
    assert (env / "00000001.jdb").is_symlink()


@pytest.mark.parametrize(
    "path", ["../../victim.jdb", "/etc/00000000.jdb", "data001/../00000000.jdb", "00000000.jdb\0", "x.jdb"]
)
def test_names_that_lead_elsewhere(path: str, backups: Path, tmp_path: Path) -> None:
    (manifest,) = (backups / "backups").iterdir()
    manifest.write_text(manifest.read_text().replace('"00000000.jdb"', f'"{path.replace(chr(0), chr(92) + "u0000")}"'))
    before = state_of(tmp_path)
    done = run("restore", backups, tmp_path / "env")
    assert done.code == exits.NOT_FOUND
    assert "no backup that can be used" in done.err
    assert state_of(tmp_path) == before


def test_an_environment_in_use(backups: Path, tmp_path: Path) -> None:
    from engine.db.config import EnvironmentConfig
    from engine.db.environment import Environment
    from engine.storage.disk import DiskStorage

    env = copy_of(named("je-18.3.20/torn-base"), tmp_path / "env")
    with Environment(DiskStorage(str(env)), EnvironmentConfig()):
        before = logs(env)
        assert run("restore", backups, env, "--delta", "--yes").code == exits.REFUSED
        assert logs(env) == before


def calls_before_the_end(tmp_path: Path, step: int, *, delta: bool) -> int:
    """Kill a restore in front of every so many system calls, and run it again: the environment is the same each time.

    Returns the number of the call that is no longer made.
    """
    source = tmp_path / "source"
    source.mkdir()
    for name in ("00000000.jdb", "00000001.jdb"):
        shutil.copy(ENV / name, source / name)
    run("backup", source, tmp_path / "d")
    words = ("restore", tmp_path / "d", tmp_path / "env", *(("--delta", "--yes") if delta else ()))
    old = {"00000000.jdb": b"damaged", "00000009.jdb": b"of another log"} if delta else {}

    def prepare() -> None:
        for path in tmp_path.glob("env*"):
            shutil.rmtree(path)
        if old:
            (tmp_path / "env").mkdir()
        for name, data in old.items():
            (tmp_path / "env" / name).write_bytes(data)

    prepare()
    assert run(*words).code == exits.DONE
    wanted, at = logs(tmp_path / "env"), 0
    while True:
        prepare()
        if not run_killed(at, *words):
            break
        done = run(*words)
        assert done.code == exits.DONE, (at, done.err)
        assert logs(tmp_path / "env") == wanted, at
        assert not os.path.lexists(tmp_path / "env" / "jetool.repair")
        at += step
    return at


@pytest.mark.parametrize("delta", [False, True])
def test_killed_at_some_system_calls(delta: bool, tmp_path: Path) -> None:
    assert calls_before_the_end(tmp_path, 11, delta=delta) > 11


@pytest.mark.slow
@pytest.mark.parametrize("delta", [False, True])
def test_killed_at_every_system_call(delta: bool, tmp_path: Path) -> None:
    assert calls_before_the_end(tmp_path, 1, delta=delta) > 11
