"""Real Derby databases on disk, and what is recorded of them."""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

from tests.support import corpus

NAMES = (
    "clean-shutdown",
    "crash-ddl",
    "crash-five-transactions",
    "crash-log-files",
    "crash-mixed",
    "crash-xa-prepared",
)
FIVE = "crash-five-transactions"


def fixture_path(name: str) -> Path:
    """The directory of a fixture."""
    return corpus.path() / "derby" / name


def extract(name: str, target: Path) -> Path:
    """A copy of a database below ``target``; its directory."""
    with tarfile.open(fixture_path(name) / "db.tar.gz") as archive:
        top = archive.getnames()[0].partition("/")[0]
        # The first releases of Python 3.11 have no filters; the archive is the project's own.
        if hasattr(tarfile, "data_filter"):
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(target)
    return target / top


@functools.cache
def recorded(name: str) -> list[dict[str, Any]]:
    """Every record of a fixture."""
    lines = gzip.decompress((fixture_path(name) / "records.jsonl.gz").read_bytes()).decode().splitlines()
    return [json.loads(line) for line in lines]


@functools.cache
def manifest(name: str) -> dict[str, Any]:
    """The manifest of a fixture."""
    return dict(json.loads((fixture_path(name) / "manifest.json").read_text()))


def damage_cases() -> list[dict[str, Any]]:
    """The cases of damage.json."""
    return list(json.loads((fixture_path(FIVE) / "damage.json").read_text())["cases"])


def damage(database: Path, case: dict[str, Any]) -> None:
    """Do to a database what a case says."""
    for patch in case["patches"]:
        path = database / "log" / patch["file"]
        if patch.get("delete"):
            path.unlink()
        elif "create" in patch:
            path.write_bytes(bytes.fromhex(patch["create"]) + bytes(patch["pad"]))
        elif "truncate" in patch:
            path.write_bytes(path.read_bytes()[: patch["truncate"]])
        else:
            data = bytearray(path.read_bytes())
            change = bytes.fromhex(patch["hex"])
            data[patch["offset"] : patch["offset"] + len(change)] = change
            path.write_bytes(bytes(data))


def state_of(database: Path) -> dict[str, tuple[int, int, str]]:
    """Every file and directory: mode, time of change in ns, digest."""
    found = {}
    for path in (database, *sorted(database.rglob("*"))):
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "directory"
        found[str(path)] = path.stat().st_mode, path.stat().st_mtime_ns, digest
    return found


def copy_of_je(target: Path) -> Path:
    """A copy of some JE environment: a verb under test may write."""
    return corpus.copy(sorted((corpus.path() / "je").glob("je-18*/*/env"))[0], target / "je-env")
