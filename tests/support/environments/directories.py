"""Files in memory as an environment directory."""

from __future__ import annotations

from pathlib import Path

from tests.support.logs.log_writer import Files


def put(path: Path, files: Files) -> Path:
    """The files as an environment directory."""
    path.mkdir()
    for name, data in files.items():
        target = path / name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(data)
    return path
