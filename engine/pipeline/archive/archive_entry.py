"""The ``engine/__init__.py`` of the archive for executors: chooses the build, and hands over to the real package.

The archive (``package_archive``) holds this module and, under ``package``, the whole package::

    engine/__init__.py              a copy of this file
    package/engine/...              sources, and compiled modules if the driver runs the native build
    package/x__mypyc.cpython-311-x86_64-linux-gnu.so
    PLATFORM                        the platform of the compiled modules; absent if there are none

Python imports sources from a zip, but no compiled modules. So the first worker of an executor unpacks the package
beside the archive, and a second process imports all compiled modules as a trial. Every worker then imports the unpacked
package. The sources in the archive serve in every other case: the platform differs (Python, machine, libc),
``JETOOL_PURE`` is set, the directory cannot be written, the trial failed, died or took too long. No such case is an
error.

Only the standard library can be imported here.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

PACKAGE: Final = "package"
PLATFORM: Final = "PLATFORM"
PURE: Final = "JETOOL_PURE"
COMPILED: Final = (".so", ".pyd")
_NAME: Final = "engine"
# In the directory that was unpacked, after the trial succeeded. Without it the trial failed; it is not repeated.
_PROVEN: Final = "PROVEN"
_TRIAL_S: Final = 60
_TRIAL: Final = """
import sys
from importlib import import_module
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    if not import_module(name).__file__.startswith(sys.argv[1]):
        sys.exit(1)
from engine.native import is_native
sys.exit(not is_native())
"""


def is_pure_wanted(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether ``JETOOL_PURE`` asks for the pure build."""
    return environ.get(PURE, "").lower() not in ("", "0", "no", "false")


def platform_tag() -> str:
    """What must be equal where compiled modules are made and where they run."""
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, OSError, ValueError):
        # The suffix of compiled modules names other libraries.
        libc = None
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    return " ".join((sys.implementation.name, platform.python_version(), str(suffix), platform.machine(), str(libc)))


def native_directory(archive: Path, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The unpacked package if its compiled modules run here; otherwise None.

    Arguments:
        archive: absolute path of the archive; the package is unpacked beside it.
        environ: environment variables.
    """
    if is_pure_wanted(environ) or not sys.executable:
        return None
    try:
        with zipfile.ZipFile(archive) as source:
            if PLATFORM not in source.namelist() or source.read(PLATFORM).decode() != platform_tag():
                return None
            target = archive.with_suffix(".native")
            if not target.is_dir():
                _unpack(source, target)
        return target / PACKAGE if (target / _PROVEN).is_file() else None
    except Exception:
        # Whatever it is, the sources in the archive can still be imported.
        return None


def _unpack(archive: zipfile.ZipFile, target: Path) -> None:
    """Unpack the package, and try it."""
    made = Path(tempfile.mkdtemp(prefix=f"{target.name}-", dir=target.parent))
    try:
        names = [name for name in archive.namelist() if name.startswith(f"{PACKAGE}/")]
        archive.extractall(made, names)
        modules = [_module(name) for name in names if name.endswith(COMPILED)]
        if modules and _runs(made / PACKAGE, modules):
            (made / _PROVEN).touch()
        # Of several workers at once, the first to finish moves its copy into place; the others use that one.
        with contextlib.suppress(OSError):
            made.rename(target)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _module(name: str) -> str:
    """``package/engine/format/lsn.cpython-311-x86_64-linux-gnu.so`` is ``engine.format.lsn``."""
    path = Path(name).relative_to(PACKAGE)
    return ".".join((*path.parts[:-1], path.name.partition(".")[0]))


def _runs(directory: Path, modules: list[str]) -> bool:
    """Whether the modules can be imported, in a process that may die of it."""
    words = [sys.executable, "-c", _TRIAL, str(directory), *modules]
    quiet = subprocess.DEVNULL
    done = subprocess.run(words, stdin=quiet, stdout=quiet, stderr=quiet, timeout=_TRIAL_S, check=False)
    return done.returncode == 0


def _hand_over(archive: Path) -> None:
    """Replace this module with the real package."""
    root = native_directory(archive) or archive / PACKAGE
    sys.path.insert(0, str(root))
    del sys.modules[_NAME]
    import_module(_NAME)


if __name__ == _NAME:
    # Spark names the files of an executor by paths relative to its directory.
    _hand_over(Path(__file__).absolute().parent.parent)
