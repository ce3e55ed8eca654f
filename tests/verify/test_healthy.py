"""Environments of real JE that nothing is wrong with: ``verify --full`` is silent, recovery gives the records of JE."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError
from engine.log.files import list_log_files
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from engine.verify.environment import DEFAULT, LEVELS, verify_environment
from engine.verify.report import ERROR, NOTE
from tests.support import corpus
from tests.support.harness import run

HEALTHY = sorted(path.parent for path in (corpus.path() / "je-healthy").glob("*/manifest.json"))
# Notes that tell an operator what he sees: gaps that the cleaner left, what a crash left at the end, databases whose
# removal JE will finish, a halt where a file was full.
NOTES = {
    "JE-LOG-012", "JE-LOG-026", "JE-TAIL-001", "JE-TAIL-003", "JE-TAIL-005", "JE-TAIL-009", "JE-DB-002", "JE-REP-008",
    "JE-OPEN-001", "JE-OPEN-002", "JE-OPEN-003",
}  # fmt: skip


ORDERS = ("--comparator", "back=from-last", "--comparator", "fall=descending")


def _said(case: Path) -> Any:
    return json.loads((case / "manifest.json").read_text())


def digest(rows: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    """Records as the manifests have them: their number, and the SHA-256 of the sorted lines in hexadecimal."""
    lines = sorted(f"{key.hex()} {data.hex()}\n" for key, data in rows)
    return {"count": len(lines), "sha256": hashlib.sha256("".join(lines).encode()).hexdigest()}


@pytest.mark.parametrize("case", HEALTHY, ids=lambda path: path.name)
def test_verify_finds_nothing(case: Path) -> None:
    done = run("verify", case / "env", "--full", "--json")
    said = json.loads(done.out)
    assert [f for f in said["findings"] if f["severity"] != NOTE or f["code"] not in NOTES] == []
    assert done.code == 0
    assert run("verify", case / "env").code == 0


def records_of(storage: Storage) -> dict[str, Any]:
    """What the manifests have of each database."""
    found = {}
    with Environment(storage, EnvironmentConfig(read_only=True)) as env:
        for name in env.database_names():
            with env.open_database(name) as db:
                found[name] = digest(list(db))
    return found


@pytest.mark.parametrize("case", HEALTHY, ids=lambda path: path.name)
def test_recovery_gives_the_records_of_je(case: Path) -> None:
    assert records_of(DiskStorage(case / "env")) == _said(case)["records"]


@pytest.mark.parametrize("case", HEALTHY, ids=lambda path: path.name)
def test_recover_would_give_nothing_up(case: Path) -> None:
    # Its recovery inserts keys in the order of a class; what happens without it is in ``cli/test_key_orders``.
    orders = (
        ["--comparator", "back=from-last", "--comparator", "fall=descending"]
        if case.name == "comparators-halted"
        else []
    )
    done = run("recover", case / "env", "-n", "--json", *orders)
    assert done.code == 0, done.err
    assert json.loads(done.out)["commits_lost"] == 0


@pytest.mark.parametrize("name", ["killed-1", "ttl-nodes", "comparators-cleaned", "up-3-18-write-halt-0", "dups"])
def test_a_file_that_is_taken_away_is_missed(name: str) -> None:
    """In the default levels, by whom the records show it: what cannot be read any more, or has changed, is red."""
    case = corpus.path() / "je-healthy" / name
    files = {path.name: path.read_bytes() for path in sorted((case / "env").glob("*.jdb"))}
    # The last file leaves no trace but its absence (``test_lost_file``).
    for taken in sorted(files)[:-1][-4:]:
        storage = MemoryStorage({path: data for path, data in files.items() if path != taken})
        try:
            is_whole = records_of(storage) == _said(case)["records"]
        except JetoolError:
            is_whole = False
        found = verify_environment(storage, list_log_files(storage), DEFAULT)
        missing = [f for f in found.findings if f.code == "JE-LOG-010"]
        assert is_whole or [f.file for f in missing if f.file == taken], (taken, found.findings)


@pytest.mark.parametrize("days", [-3, 3])
def test_only_records_that_expired_may_lie_in_a_file_that_is_gone(days: int) -> None:
    """The same environment, expired and not: its records lie in a file that is taken away."""
    storage = MemoryStorage()
    env = Environment(storage, EnvironmentConfig(create=True, file_max_bytes=20_000))
    db = env.create_database("sessions")
    for number in range(100):
        db.put(b"%04d" % number, b"v" * 600, expiration=int(time.time() // 86_400) + days)
    env.checkpoint(force=True)
    env.engine.crash()
    files = {path: data for path, data in storage.contents().items() if path.endswith(".jdb")}
    del files["00000001.jdb"]
    image = MemoryStorage(files)
    found = verify_environment(image, list_log_files(image), LEVELS)
    errors = {f.code for f in found.findings if f.severity == ERROR}
    assert errors == ({"JE-LOG-010", "JE-REF-001"} if days > 0 else set())
    (lost,) = [f for f in found.findings if f.code in ("JE-LOG-010", "JE-LOG-012")]
    assert "00000001.jdb" in lost.message
    assert ("records, the first of sessions" in lost.message) is (days > 0)
