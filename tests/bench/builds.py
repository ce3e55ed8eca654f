"""The builds of jetool that are measured: the source as it stands, and the wheel that pip makes of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

REPOSITORY: Final = Path(__file__).resolve().parents[2]
NATIVE: Final = "native"
PURE: Final = "pure"


class Build(NamedTuple):
    """One build.

    Attributes:
        name: ``native`` or ``pure``.
        environ: what a process must have in its environment to run it.
    """

    name: str
    environ: Mapping[str, str]


def builds(wanted: Sequence[str], directory: Path) -> list[Build]:
    """The wanted builds, the native one first; what pip makes goes into a directory.

    The native one is left out where it cannot be made: then pip installs the pure code.
    """
    found = []
    if NATIVE in wanted and _install(directory):
        found.append(Build(NATIVE, {"PYTHONPATH": str(directory / "site"), "PYTHONSAFEPATH": "1"}))
    if PURE in wanted or not found:
        found.append(Build(PURE, {"PYTHONPATH": str(REPOSITORY), "PYTHONSAFEPATH": "1"}))
    return found


def _install(directory: Path) -> bool:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    environ = {name: value for name, value in os.environ.items() if name not in ("JETOOL_PURE", "PYTHONPATH")}
    for words in (["wheel", "-w", str(directory)], ["install", "--target", str(directory / "site")]):
        what = [str(REPOSITORY)] if words[0] == "wheel" else [str(path) for path in directory.glob("jetool-*.whl")]
        done = subprocess.run([*pip, *words, "--no-deps", *what], env=environ, capture_output=True, check=False)
        if done.returncode:
            sys.stderr.write(done.stderr.decode(errors="replace"))
            return False
    is_native = any((directory / "site" / "engine" / "native").glob("core.*.so"))
    if not is_native:
        sys.stderr.write("only the pure build is measured: pip could not make the native one\n")
    return is_native
