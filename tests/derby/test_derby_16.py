"""A database of Derby 10.16.1.1, the release in PySpark 4, killed under load: recovered to what that release leaves.

``tests/golden/derby-10.16.tar.xz`` has the database, and in ``after.json`` the SHA-256 of every container after
10.16.1.1 itself recovered and closed a copy.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from engine.derby.recovery.manager import recover
from engine.storage.memory import MemoryStorage
from tests.support.corpus import archive_members
from tests.support.harness import run

ARCHIVE = Path(__file__).resolve().parents[1] / "golden" / "derby-10.16.tar.xz"


def crashed() -> dict[str, bytes]:
    return {name.removeprefix("db/"): data for name, data in archive_members(ARCHIVE).items() if name.startswith("db/")}


def sums(files: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items() if name.startswith("seg0/")}


def test_every_container_is_that_of_derby() -> None:
    expected = json.loads(archive_members(ARCHIVE)["after.json"])
    assert len(expected) == 75
    assert sums(crashed()) != expected
    storage = MemoryStorage(crashed())
    result = recover(storage)
    assert (result.clean, result.lost_commits, result.pages_written) == (False, 0, 30)
    assert sums(storage.contents()) == expected


def test_commands_accept_it(tmp_path: Path) -> None:
    for name, data in crashed().items():
        path = tmp_path / "db" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    env = str(tmp_path / "db")
    assert run("info", env, "--json").json()["release"] == "10.16"
    assert run("recover", env, "-n").code == 0
    assert run("recover", env).code == 0
    assert run("verify", env, "--full").code == 0
    assert run("info", env, "--json").json()["closed_cleanly"] is True
