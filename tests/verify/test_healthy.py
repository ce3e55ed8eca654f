"""Environments of real JE that nothing is wrong with: ``verify --full`` is silent, recovery gives the records of JE."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.storage.disk import DiskStorage
from engine.verify.report import NOTE
from tests import corpus
from tests.harness import run

HEALTHY = sorted(path.parent for path in (corpus.path() / "je-healthy").glob("*/manifest.json"))
# Notes that tell an operator what he sees: gaps that the cleaner left, what a crash left at the end, databases whose
# removal JE will finish.
NOTES = {"JE-LOG-012", "JE-TAIL-001", "JE-TAIL-003", "JE-TAIL-005", "JE-DB-002", "JE-REP-008"}


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


@pytest.mark.parametrize("case", HEALTHY, ids=lambda path: path.name)
def test_recovery_gives_the_records_of_je(case: Path) -> None:
    found = {}
    with Environment(DiskStorage(case / "env"), EnvironmentConfig(read_only=True)) as env:
        for name in env.database_names():
            with env.open_database(name) as db:
                found[name] = digest(list(db))
    assert found == _said(case)["records"]


@pytest.mark.parametrize("case", HEALTHY, ids=lambda path: path.name)
def test_recover_would_give_nothing_up(case: Path) -> None:
    done = run("recover", case / "env", "-n", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["commits_lost"] == 0
