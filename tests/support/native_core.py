"""The extension ``engine.native.core``: the one of the native build, or one that is compiled for the tests.

The pure build has no extension. So that its tests hold the functions in C against their twins too, ``native_core``
compiles the sources, once per machine and state of the sources, with every warning an error. ``python -m
tests.support.native_core OPTION...`` compiles them with more options into the work tree, where the engine finds them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import sysconfig
import tempfile
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final

from engine import native
from tests.support.modules import ROOT
from tests.support.tools import needs

SOURCES: Final = ROOT / "engine" / "native"
FLAGS: Final = ("-std=c11", "-O1", "-g", "-fPIC", "-shared", "-Wall", "-Wextra", "-Wconversion", "-Werror")


@cache
def native_core() -> Any:
    """The extension, which is not made known to the engine; without a compiler the test is skipped."""
    if native.extension is not None:
        return native.extension
    needs("C compiler")
    spec = spec_from_file_location("engine.native.core", compiled(Path(tempfile.gettempdir())))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compiled(directory: Path, *options: str) -> Path:
    """The shared object, compiled into a directory unless it is there already."""
    files = sorted(path for path in SOURCES.iterdir() if path.suffix in (".c", ".h"))
    state = hashlib.sha256(repr((sys.version, options, os.getuid())).encode())
    for path in files:
        state.update(path.read_bytes())
    made = directory / f"jetool-core-{state.hexdigest()[:16]}.so"
    with made.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            part = made.with_suffix(".part")
            compile_to(part, *options)
            part.rename(made)
    return made


def compile_to(path: Path, *options: str) -> None:
    """Compile the sources into a shared object, with more options of the compiler."""
    command = [os.environ.get("CC", "cc"), *FLAGS, *options, "-isystem", sysconfig.get_path("include")]
    subprocess.run([*command, "-o", path, *sorted(SOURCES.glob("*.c"))], check=True)


if __name__ == "__main__":
    compile_to(SOURCES / f"core{sysconfig.get_config_var('EXT_SUFFIX')}", *sys.argv[1:])
