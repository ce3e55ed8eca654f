"""What a repository of backups holds."""

from __future__ import annotations

from pathlib import Path

from engine.backup.repository import Repository
from engine.storage.disk import DiskStorage


def contents(place: Path) -> dict[str, bytes]:
    """The files of the newest backup, by their paths in the environment; none without a backup."""
    latest = Repository(DiskStorage(str(place))).latest()
    files = latest.files if latest is not None else ()
    return {file.path: (place / file.stored).read_bytes() for file in files}
