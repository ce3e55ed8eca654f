"""Copies of fixture environments, and what must not change while a command reads."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

from tests.support import corpus
from tests.support.environments.oracle import Environment


def copy_of(environment: Environment, target: Path) -> Path:
    """A writable copy of a fixture's environment."""
    return corpus.copy(environment.path / "env", target)


def state_of(directory: Path) -> dict[str, Any]:
    """Names, contents and times of everything in a directory, to be compared with itself later."""
    found: dict[str, Any] = {".": directory.stat().st_mtime_ns}
    for path in sorted(directory.rglob("*")):
        stat = path.stat()
        content = path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(directory))] = (stat.st_mtime_ns, stat.st_size, content)
    return found


def expected_dumps(environment: Environment) -> dict[str, bytes]:
    """DbDump of each database by name; those that ended in an exception are left out."""
    found = {}
    for path in sorted((environment.path / "expected" / "dump").glob("*.dump*")):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        if data.endswith(b"DATA=END\n"):
            found[path.name.removesuffix(".gz").removesuffix(".dump")] = data
    return found
