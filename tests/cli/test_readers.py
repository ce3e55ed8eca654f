"""Readers write nothing: not into the environment, not beside it, not even times of files (design/cli.md, Safety)."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

from engine.log.files import LogFiles, list_log_files
from engine.storage.base import Storage
from jetool.frame import exits
from tests.support.environments.frontends import rolled, write_frontend
from tests.support.harness import run

GOLDEN = Path(__file__).parent.parent / "golden"
ENVIRONMENTS = [
    "je-17/torn-cut-mid",
    "je-17/corrupt-middle",
    "je-17/ha-rollback",
    "je-17/restore-required",
    "je-6/dups",
]
COMMANDS = [
    ("info",),
    ("verify",),
    ("verify", "--jobs", "2"),
    ("verify", "--format", "sarif"),
    ("vlsn", "map"),
    ("vlsn", "gaps"),
    ("dump-log",),
    ("dump-log", "--stats"),
    ("dump-log", "--reverse", "--limit", "5"),
    ("dump-log", "--tail", "3", "--format", "xml"),
    ("dump-log", "--rolled-back", "--nodes", "slots"),
]


@pytest.fixture(params=ENVIRONMENTS)
def env(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A copy without write permission; with je.lck in every second."""
    path = tmp_path / "parent" / "env"
    path.parent.mkdir()
    shutil.copytree(GOLDEN / request.param, path)
    if "1" in request.param:
        (path / "je.lck").touch()
    for file in path.iterdir():
        file.chmod(stat.S_IRUSR)
        os.utime(file, ns=(1_600_000_000_000_000_000, 1_600_000_000_000_000_000))
    path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    os.utime(path, ns=(1_600_000_000_000_000_000, 1_600_000_000_000_000_000))
    yield path
    path.chmod(stat.S_IRWXU)


def state(env: Path) -> dict[str, object]:
    """Names, modes, times of change and contents, of the environment and of what is beside it."""
    found: dict[str, object] = {}
    for path in sorted([env.parent, *env.parent.iterdir(), *env.iterdir()]):
        told = path.lstat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path)] = (told.st_ino, told.st_mode, told.st_mtime_ns, told.st_ctime_ns, told.st_size, digest)
    return found


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_reader_changes_nothing(env: Path, command: tuple[str, ...]) -> None:
    before = state(env)
    name, *options = command
    words: list[str | Path] = [name, options.pop(0), env, *options] if name == "vlsn" else [name, env, *options]
    result = run(*words)
    assert result.code in (exits.DONE, exits.FINDINGS), result.err
    assert result.out
    assert state(env) == before


_TRY_TO_LOCK = """
import fcntl, sys
try:
    fcntl.lockf(open(sys.argv[1], "r+b"), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, int(sys.argv[2]))
    print("granted")
except OSError:
    print("refused")
"""


def test_no_cleaner_deletes_files_that_verify_has_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files were gone between the listing and the reading, and the command ended with 4."""
    env = tmp_path / "env"
    assert run("create", env).code == 0
    (env / "je.lck").touch()
    asked = []

    def listed(storage: Storage) -> LogFiles:
        done = subprocess.run(
            [sys.executable, "-c", _TRY_TO_LOCK, env / "je.lck", "1"], capture_output=True, text=True, check=True
        )
        asked.append(done.stdout)
        return list_log_files(storage)

    monkeypatch.setattr("jetool.commands.verify.command.list_log_files", listed)
    assert run("verify", env).code == 0
    assert asked == ["refused\n"]


@pytest.mark.parametrize(
    ("words", "within"),
    [
        (("dbs",), "engine.db.environment:Environment.database_names"),
        (("journal", "stats"), "jetool.commands.journal.usage:read_usage"),
        (("space",), "engine.db.environment:Environment.close"),
        (("space", "--recalc"), "engine.rescue.recalculation:recalculate"),
    ],
)
def test_readers_keep_files_and_hold_up_no_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], within: str
) -> None:
    """As the help of these commands says."""
    write_frontend(tmp_path, rolled(1, 20, 100))
    (tmp_path / "je.lck").touch()
    asked = []
    real = resolve_name(within)

    def asking(*arguments: Any, **named: Any) -> object:
        for byte in ("0", "1"):
            tried = [sys.executable, "-c", _TRY_TO_LOCK, str(tmp_path / "je.lck"), byte]
            asked.append(subprocess.run(tried, capture_output=True, text=True, check=True).stdout)
        return real(*arguments, **named)

    monkeypatch.setattr(within.replace(":", "."), asking)
    assert run(*words, tmp_path).code == exits.DONE
    monkeypatch.undo()
    assert asked[:2] == ["granted\n", "refused\n"]
