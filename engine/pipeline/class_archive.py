"""An archive of Spark's loaded classes, which makes Spark start faster.

A JVM that starts Spark reads and verifies 10,000 classes from 280 jars. HotSpot can write its loaded classes into an
archive when it ends (class data sharing), and map that file the next time: an empty job takes 2.8 s instead of 7.7 s on
two busy cores.

Rules:

* The file is in the user's own cache directory, which other users must not be able to write: ``JETOOL_CACHE``, else
  ``jetool`` in
  ``XDG_CACHE_HOME``, else ``~/.cache/jetool``. Without such a directory, or with an empty ``JETOOL_CACHE``, Spark
  starts as it always did.
* Writing the archive takes some seconds, so it is left to the second session: a container that runs a single command
  never writes it.
* The JVM itself refuses an archive of another JVM or of other jars, and then runs without an archive. After a failed
  attempt to write the archive, the next attempt is a day later.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from engine.pipeline.java import Runtime
from engine.pipeline.settings import JAVA_OPTIONS

_OWN_OPTIONS: Final = ("-Xshare", "SharedArchive", "ArchiveClasses")
# Variables from which Spark's launcher builds the class path.
_PATH_VARIABLES: Final = (
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "SPARK_PREPEND_CLASSES",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
)
_OPTION_VARIABLES: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
_CLASS_PATH: Final = "spark.driver.extraClassPath"
# Most archives kept; each has 70 to 120 MB.
_MOST_KEPT: Final = 4
_FIRST: Final = ".first"
_STALE_S: Final = 24 * 3600


class ClassArchive:
    """The archive for one kind of session; without a path no archive is used.

    Attributes:
        flags: the JVM's options for the archive; "" for no options.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path or Path()
        self._written: Path | None = None
        self.flags = ""
        if path is None:
            return
        if path.exists():
            os.utime(path)
            self.flags = _flags(f"-XX:SharedArchiveFile={path}")
        elif self._is_second():
            self._written = path.with_suffix(f".{os.getpid()}.tmp")
            self.flags = _flags(f"-XX:ArchiveClassesAtExit={self._written}")

    @property
    def is_written(self) -> bool:
        """Whether the JVM writes the archive when it ends, which takes some seconds."""
        return self._written is not None

    def keep(self) -> None:
        """Keep the archive that the JVM has written; call it after the JVM has ended."""
        if self._written is None:
            return
        # Without a file the JVM could not write the archive; the marker, which stays, records the attempt.
        with contextlib.suppress(OSError):
            self._written.chmod(0o600)
            self._written.replace(self._path)
            _tried(self._path).unlink()
        _sweep(self._path.parent)

    def drop(self) -> None:
        """Allow another session to write the archive; call it if the session has failed and its JVM has ended."""
        if self._written is None:
            return
        with contextlib.suppress(OSError):
            _tried(self._path).rename(self._path.with_suffix(_FIRST))
            self._written.unlink(missing_ok=True)

    def _is_second(self) -> bool:
        """Whether this session shall write the archive: there was an earlier session, and no attempt yet."""
        _sweep(self._path.parent)
        first = self._path.with_suffix(_FIRST)
        if _tried(self._path).exists():
            return False
        try:
            # If two sessions begin at once, only one finds the marker.
            first.rename(_tried(self._path))
        except FileNotFoundError:
            first.touch(0o600)
            return False
        os.utime(_tried(self._path))
        return True


def archive_for(
    runtime: Runtime, conf: Mapping[str, str], *, quick: bool, environment: Mapping[str, str] = os.environ
) -> ClassArchive:
    """The archive for a session.

    Arguments:
        runtime: the JVM.
        conf: Spark's settings.
        quick: the session is for jobs without data frames, which need half of the classes.
        environment: environment variables of the JVM.
    """
    given = [conf.get(JAVA_OPTIONS, ""), *(environment.get(name, "") for name in _OPTION_VARIABLES)]
    base = runtime.home / "lib" / "server" / "classes.jsa"
    directory = _directory(environment)
    # Archives are made on top of the one that comes with the JVM.
    if directory is None or any(option in text for text in given for option in _OWN_OPTIONS) or not base.exists():
        return ClassArchive(None)
    jars = Path(environment.get("SPARK_HOME", "")) / "jars"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = directory.stat()
        # A JVM trusts the content of an archive.
        if about.st_uid != os.getuid() or about.st_mode & 0o022:
            return ClassArchive(None)
        stated = [f"{path} {path.stat().st_mtime_ns}" for path in (base, jars)]
        stated += [f"{name}={environment.get(name, '')}" for name in _PATH_VARIABLES]
        stated.append(conf.get(_CLASS_PATH, ""))
        key = hashlib.sha256("\n".join(stated).encode()).hexdigest()[:16]
        return ClassArchive(directory / f"spark-{'jobs' if quick else 'frames'}-{key}.jsa")
    except OSError:
        # A full or unwritable disk must not stop the session.
        return ClassArchive(None)


def _flags(option: str) -> str:
    # Show only errors: warnings about the archive would precede the reason of a failed start.
    return f"-Xlog:cds*=error {shlex.quote(option)}"


def _directory(environment: Mapping[str, str]) -> Path | None:
    own = environment.get("JETOOL_CACHE")
    if own is not None:
        return Path(own) if own else None
    base = environment.get("XDG_CACHE_HOME") or (f"{environment['HOME']}/.cache" if environment.get("HOME") else "")
    return Path(base) / "jetool" if base.startswith("/") else None


def _tried(path: Path) -> Path:
    return path.with_suffix(".tried")


def _sweep(directory: Path) -> None:
    """Remove old unfinished files, and all archives except the most recently used ones."""
    before = time.time() - _STALE_S
    with contextlib.suppress(OSError):
        for path in [*directory.glob("spark-*.tried"), *directory.glob("spark-*.tmp")]:
            if path.stat().st_mtime < before:
                path.unlink()
        kept = sorted(directory.glob("spark-*.jsa"), key=lambda path: path.stat().st_mtime)
        for path in kept[:-_MOST_KEPT]:
            path.unlink()
