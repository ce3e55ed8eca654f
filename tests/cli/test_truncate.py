"""``jetool truncate``: the plan, the interlocks, the cut, and the way back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.storage.disk import DiskStorage
from tests.support.environments.copies import copy_of, state_of
from tests.support.environments.oracle import named
from tests.support.harness import assert_valid, run

GROUP = "je-18.3.20/ha-group/node1"


@pytest.fixture
def env(tmp_path: Path) -> Path:
    return copy_of(named(GROUP), tmp_path / "env")


def logs(env: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in env.glob("*.jdb")}


def planned(env: Path, *words: str) -> dict[str, Any]:
    done = run("truncate", env, *words, "-n", "--json")
    assert_valid("truncate", done.out)
    return dict(done.json())


def test_a_dry_run_prints_what_the_real_run_does(env: Path) -> None:
    before = state_of(env)
    plan = planned(env, "--to", "commits:-3")
    assert state_of(env) == before
    done = run("truncate", env, "--to", "commits:-3", "--plan", plan["plan"], "--yes", "--json")
    assert done.code == 6
    assert_valid("truncate", done.out)
    real = done.json()
    assert {name for name in real if real[name] != plan[name]} == {"dry_run", "backup", "saved_bytes"}
    assert (real["commits"], real["durable_commits"], real["rejoins"]) == (3, 2, "yes")
    assert run("verify", env, "--full").code == 0


def test_undo_brings_every_byte_back(env: Path) -> None:
    before = logs(env)
    assert run("truncate", env, "--to", "vlsn:100", "--yes").code == 6
    assert logs(env) != before
    done = run("undo", env, "--json")
    assert done.code == 0
    assert done.json()["command"] == "truncate"
    assert logs(env) == before


def test_undo_on_a_full_disk(env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = logs(env)
    assert run("truncate", env, "--to", "vlsn:100", "--yes").code == 6
    cut = state_of(env)
    with monkeypatch.context() as full:
        full.setattr(DiskStorage, "free_bytes", lambda _: 100)
        done = run("undo", env)
    assert done.code == 7
    assert "there is no room for the saved bytes" in done.err
    assert state_of(env) == cut
    assert run("undo", env).code == 0
    assert logs(env) == before


def test_a_log_file_that_is_a_link_is_not_changed(env: Path, tmp_path: Path) -> None:
    last, elsewhere = max(env.glob("*.jdb")), tmp_path / "elsewhere.jdb"
    last.rename(elsewhere)
    last.symlink_to(elsewhere)
    before = logs(env)
    done = run("truncate", env, "--to", "commits:-3", "--yes")
    assert done.code == 3
    assert "a log file is a symbolic link" in done.err
    assert logs(env) == before
    assert run("info", env, "--json").json()["interrupted_repair"] is None


def test_files_that_go_come_back(tmp_path: Path) -> None:
    env = copy_of(named("je-18.3.20/torn-base"), tmp_path / "env")
    before = logs(env)
    done = run("truncate", env, "--to", "lsn:0x2/0x26", "--yes", "--json")
    assert done.code == 6
    assert len(done.json()["removed_files"]) == len(before) - len(logs(env))
    assert len(logs(env)) in (2, 3)
    assert run("verify", env).code == 0
    assert run("undo", env).code == 0
    assert logs(env) == before


def test_committed_work_needs_consent(env: Path) -> None:
    before = logs(env)
    done = run("truncate", env, "--to", "commits:-1")
    assert done.code == 3
    assert "--yes" in done.err
    assert logs(env) == before


def test_commits_after_damage_need_consent(tmp_path: Path) -> None:
    """Three intact transactions stand after the bad entry at which recovery ends the log."""
    env = copy_of(named("je-18.3.20/corrupt-middle"), tmp_path / "env")
    before = logs(env)
    plan = planned(env, "--to", "lsn:0x5/0x80e")
    assert (plan["commits"], plan["commits_after_damage"]) == (3, 3)
    refused = run("truncate", env, "--to", "lsn:0x5/0x80e")
    assert refused.code == 3
    assert "3 committed transactions would be cut off" in refused.err
    assert "3 of them stand intact after damage" in refused.err
    assert "jetool salvage" in refused.err
    assert logs(env) == before
    assert run("truncate", env, "--to", "lsn:0x5/0x80e", "--yes").code == 6
    assert run("undo", env).code == 0
    assert logs(env) == before


@pytest.mark.parametrize("name", ["torn-cut-mid", "torn-garbage-tail", "torn-zero-tail"])
def test_a_torn_tail_goes_without_consent(tmp_path: Path, name: str) -> None:
    """What a crash tore has no Commit after it."""
    env = copy_of(named(f"je-18.3.20/{name}"), tmp_path / "env")
    end_lsn = planned(env, "--to", "commits:-1")["end_lsn_before"]
    done = run("truncate", env, "--to", f"lsn:{end_lsn}", "--json")
    assert done.code == 0
    assert done.json()["changed"] is True
    assert (done.json()["commits"], done.json()["commits_after_damage"]) == (0, 0)


def test_a_plan_of_other_files_is_refused(env: Path) -> None:
    plan = planned(env, "--to", "commits:-3")["plan"]
    path = env / "00000000.jdb"
    path.write_bytes(path.read_bytes()[:-1])
    before = logs(env)
    done = run("truncate", env, "--to", "commits:-3", "--plan", plan, "--yes")
    assert done.code == 3
    assert "changed since" in done.err
    assert logs(env) == before


def test_an_open_transaction_goes_without_consent(env: Path) -> None:
    done = run("truncate", env, "--to", "lsn:0x0/0x6a18", "--json")
    assert done.code == 0
    assert done.json()["commits"] == 0
    assert done.json()["snapped"]


def test_nothing_after_the_point(env: Path) -> None:
    assert run("truncate", env, "--to", "commits:-1", "--yes").code == 6
    before = logs(env)
    end = planned(env, "--to", "commits:-1")["end_lsn_before"]
    done = run("truncate", env, "--to", f"lsn:{end}", "--json")
    assert done.code == 0
    assert done.json()["changed"] is False
    assert logs(env) == before


@pytest.mark.parametrize(
    ("point", "code"),
    [
        ("lsn:0x0/0x649f", 4), ("vlsn:9999", 4), ("txn:5000", 4), ("matchpoint", 4), ("commits:-900", 4),
        ("lsn:1234", 2), ("commits:3", 2), ("commits:-0", 2), ("vlsn:x", 2), ("lsn:", 2), ("yesterday", 2),
        ("lsn:ckpt", 2), ("time:soon", 2),
    ],
)  # fmt: skip
def test_no_such_point(env: Path, point: str, code: int) -> None:
    before = logs(env)
    assert run("truncate", env, "--to", point, "--yes").code == code
    assert logs(env) == before


def test_a_restore_marker(tmp_path: Path) -> None:
    env = copy_of(named("je-18.3.20/restore-required"), tmp_path / "env")
    before = logs(env)
    assert run("truncate", env, "--to", "commits:-1", "--yes").code == 3
    assert logs(env) == before


def test_a_read_only_directory_loses_nothing(env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also root is stopped by a backup directory that cannot be made."""
    before = logs(env)
    (env.parent / "file").write_text("in the way")
    done = run("truncate", env, "--to", "commits:-1", "--yes", "--backup-dir", env.parent / "file")
    assert done.code == 7
    assert logs(env) == before
