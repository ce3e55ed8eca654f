"""Environments of log versions 4 and 5, as JE 3.1.0 and 3.2.68 and two small programs wrote them, and what JE says.

``tests/golden/early.tar.xz`` has a directory for each: ``env/``; ``records.txt``, the records of every database after
recovery; ``judge.json``, the release of JE that gave them, and why 18.3.20 did not; ``printed.xml``, the output of
18.3.20's DbPrintLog (not of ``clean``, which is large). ``cuts.json`` has the SHA-256 of the records for a log that
ends after an entry: offset, judge, digest.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.storage.memory import MemoryStorage
from tests.support.corpus import archive_members
from tests.support.logs.early_logs import as_version

ARCHIVE = Path(__file__).resolve().parents[2] / "golden" / "early.tar.xz"
NAMES = (
    "field/a",
    "field/b",
    "je-3.1.0/dup-delta-crash",
    "je-3.1.0/names",
    "je-3.2.68/clean",
    "je-3.2.68/cmp-dup",
    "je-3.2.68/dup-delta-crash",
    "je-3.2.68/names-delta-crash",
)


def said(name: str, file: str) -> str:
    """What JE said of an environment: the text of one of its files."""
    return archive_members(ARCHIVE)[f"{name}/{file}"].decode()


def judged(name: str, file: str = "judge.json") -> Any:
    """The same, of a file in JSON."""
    return json.loads(said(name, file))


def files_of(name: str) -> dict[str, bytes]:
    """The log files by name."""
    start = f"{name}/env/"
    return {path[len(start) :]: data for path, data in archive_members(ARCHIVE).items() if path.startswith(start)}


def unpack(name: str, target: Path) -> Path:
    """Write an environment to a new directory."""
    target.mkdir()
    for file, data in files_of(name).items():
        (target / file).write_bytes(data)
    return target


def unpack_as(name: str, version: int, target: Path) -> Path:
    """Write an environment to a new directory, in the form of a log version from 1 to 5."""
    target.mkdir()
    for file, data in as_version(files_of(name), version).items():
        (target / file).write_bytes(data)
    return target


def records_of(files: dict[str, bytes]) -> str:
    """The records of every database after recovery in memory, in the form of ``records.txt``."""
    lines = []
    with Environment(MemoryStorage(files), EnvironmentConfig(read_only=True)) as env:
        for name in sorted(env.database_names()):
            db = env.open_database(name)
            lines.append(f"DB {name} dups={str(db.duplicates).lower()}")
            lines += [f"{key.hex()} {data.hex()}" for key, data in db.items()]
    return "".join(f"{line}\n" for line in lines)
