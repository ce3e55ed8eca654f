"""The package as a zip, for executors that lack it."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Final

import engine

NAME: Final = "engine.zip"


def package_zip(directory: Path) -> Path:
    """Write ``engine`` as a zip that Python imports from.

    Arguments:
        directory: where to write it.

    Returns:
        Path of the zip. It holds source files only: compiled ones do not load from a zip.
    """
    root = Path(engine.__path__[0])
    target = directory / NAME
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*.py")):
            archive.write(path, Path(root.name) / path.relative_to(root))
    return target
