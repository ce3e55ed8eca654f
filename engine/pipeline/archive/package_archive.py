"""Writes the zip, on the driver.

If the driver runs the native build, the zip holds its compiled modules too, and executors of the same platform use
them. ``archive_entry`` has the layout of the zip, and decides on the executor which build runs there.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import engine
from engine.pipeline.archive import archive_entry
from engine.pipeline.archive.archive_entry import COMPILED, PACKAGE, PLATFORM, is_pure_wanted, platform_tag

NAME: Final = "engine.zip"
# The shared object of all modules that mypyc has compiled lies beside the package; each of them imports it by name.
_SHARED: Final = re.compile(rb"\w+__mypyc(?=\0)")
# A higher level takes three times as long and saves an eighth.
_COMPRESSION: Final = 1


def package_zip(directory: Path, root: Path | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """Write ``engine`` as a zip that Python imports from.

    Arguments:
        directory: where to write it.
        root: the directory of the package; None for the package that runs.
        environ: environment variables; ``JETOOL_PURE`` leaves compiled modules out.

    Returns:
        Path of the zip.
    """
    root = Path(engine.__path__[0]) if root is None else root
    target = directory / NAME
    compiled = [] if is_pure_wanted(environ) else _compiled(root)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION) as archive:
        archive.write(archive_entry.__file__, f"{root.name}/__init__.py")
        for path in [*sorted(root.rglob("*.py")), *compiled]:
            archive.write(path, Path(PACKAGE) / path.relative_to(root.parent))
        if compiled:
            archive.writestr(PLATFORM, platform_tag())
    return target


def _compiled(root: Path) -> list[Path]:
    """The compiled modules of the package, and the shared objects that they import."""
    modules = sorted(path for path in root.rglob("*") if path.suffix in COMPILED)
    names = {name.decode() for path in modules for name in _SHARED.findall(path.read_bytes())}
    shared = (path for path in root.parent.iterdir() if path.suffix in COMPILED)
    return modules + sorted(path for path in shared if path.name.partition(".")[0] in names)
