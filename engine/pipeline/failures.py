"""Converts exceptions of the JVM into errors of jetool.

A failed job gives a Java exception with the full report of its tasks, or an exception of pyspark that wraps one. The
last cause is the actual fault. If that is an error raised by jetool's code on an executor, it is recognised by its
class name, and keeps its kind and text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from engine import errors
from engine.errors import JetoolError, JobError, UnsupportedError, UsageError
from engine.pipeline import java, settings
from engine.pipeline.python_side import NEXT

_LINES: Final = 3
_LONGEST: Final = 600
_OURS: Final = re.compile(r"engine\.errors\.(\w+Error): (.*)")
_CLASS: Final = re.compile(r"^(?:[\w$]+\.)+[\w$]*(?:Exception|Error): ")
_LACKING: Final = re.compile(r"ModuleNotFoundError: No module named '(pyarrow|numpy|pandas)\b")
_RAISED: Final = re.compile(r"Traceback .*\n(?:[ \t].*\n)+(\S.*)$", re.MULTILINE)
_NOISE: Final = ("at ", "... ", "Driver stacktrace", "SQLSTATE", "JVM stacktrace")
_FULL: Final = ("No space left on device", "Disk quota exceeded")
_ROOM: Final = "make room, or name another directory with --conf spark.local.dir=DIR, and run it again"
# A package that Spark lacks for a source, what it is for, and the way to install it.
_MISSING: Final = (
    ("AVRO_DATA_SOURCE_NOT_ENABLED", "Avro", "org.apache.spark:spark-avro_2.13:VERSION, with the version of pyspark"),
    (
        "S3AFileSystem not found",
        "s3a",
        "org.apache.hadoop:hadoop-aws:VERSION, with the version of Spark's hadoop-client",
    ),
)
_NO_HOST: Final = re.compile(r"UnknownHostException: ([\w.-]+)")
# Of the log of a JVM that did not start.
_UNRESOLVED: Final = re.compile(r"unresolved dependency: ([^\s\]]+): not found")
_NO_MASTER: Final = re.compile(r'are unresponsive|SparkEnv\$\.get\(\)"? is null')
_UNCHANGED: Final = "nothing was read or changed"
_START: Final = "see whether the Java runtime works, and with less memory: --conf spark.driver.memory=512m"
_WORKER_DIED: Final = "Python worker exited unexpectedly"
_MEMORY: Final = "see whether memory ran out (dmesg); with --jobs 1 one task at a time needs it; then run it again"


@contextmanager
def explained(
    what: str, *, consequence: str | None = None, hint: str | None = None, room: str = _ROOM
) -> Iterator[None]:
    """Convert an exception of pyspark or of the JVM into an error of jetool.

    Arguments:
        what: the action that failed, as a clause: ``the bulk load failed``.
        consequence: what the failure means for the data.
        hint: the next action.
        room: the next action where a disk is full.

    Raises:
        JetoolError: an error that jetool's code raised on an executor, with its own kind.
        JobError: anything else that Spark, Arrow or the operating system reports.
    """
    try:
        yield
    except JetoolError as error:
        # The exception raised closest to the fault is the most precise.
        error.consequence = error.consequence or consequence
        error.hint = error.hint or (room if _is_full(str(error)) else hint)
        raise
    except Exception as error:
        # A bug in jetool keeps its traceback.
        if not _is_foreseen(error):
            raise
        raise of(error, what, consequence=consequence, hint=hint, room=room) from error


def of(
    error: BaseException, what: str, *, consequence: str | None = None, hint: str | None = None, room: str = _ROOM
) -> JetoolError:
    """The error to raise for an exception of Spark; see ``explained``."""
    text = story(error)
    # An exception of an executor crosses the JVM as text; only its class name and message survive.
    ours = _OURS.search(text)
    kind = getattr(errors, ours[1], None) if ours else None
    if ours and isinstance(kind, type) and issubclass(kind, JetoolError):
        what, _, own_hint = ours[2].strip().partition(NEXT)
        return kind(what, consequence=consequence, hint=room if _is_full(text) else own_hint or hint)
    lacking = _LACKING.search(text)
    if lacking is not None:
        return UnsupportedError(
            f"the executors lack the Python package {lacking[1]}",
            consequence=consequence,
            hint=f"install it for the Python of the executors: {java.pip_command()}; PYSPARK_PYTHON names that program",
        )
    if _is_full(text):
        return JobError(f"the disk is full: {what}", found=summary(text), consequence=consequence, hint=room)
    for mark, name, package in _MISSING:
        if mark in text:
            hint = f"--conf spark.jars.packages={package}"
            return JobError(what, found=f"Spark has no package for {name}", consequence=consequence, hint=hint)
    no_host = _NO_HOST.search(text)
    if no_host is not None:
        hint = hint or "check the address"
        return JobError(what, found=f"no such host: {no_host[1]}", consequence=consequence, hint=hint)
    # The kernel kills without a message, so the text of the exception does not mention memory.
    if _WORKER_DIED in text:
        return JobError(what, found="a Python worker was killed, each time", consequence=consequence, hint=_MEMORY)
    return JobError(what, found=summary(text), consequence=consequence, hint=hint)


def of_start(error: BaseException, conf: Mapping[str, str], log: str) -> JetoolError:
    """The error to raise for a session that did not start.

    Arguments:
        error: of pyspark. The JVM should still run, since it is asked for the causes.
        conf: settings of the session.
        log: the end of the log of the JVM, which alone has the reason if the JVM has exited.
    """
    told = story(error)
    text = log if "JAVA_GATEWAY_EXITED" in told else told
    found = summary(text)
    master = conf.get("spark.master", "")
    if "Could not parse Master URL" in text or "Master must either" in text:
        return UsageError("Spark does not know such a master", found=master, hint="see --help")
    # If a cluster does not answer, the context ends while it starts, which gives an internal error of the JVM.
    if settings.needs_package(master) and (_NO_MASTER.search(log) or _NO_MASTER.search(text)):
        hint = "see whether the master runs, and whether its address and port are right"
        return JobError("no Spark master answers", found=master, consequence=_UNCHANGED, hint=hint)
    unresolved = _UNRESOLVED.search(text)
    if unresolved is not None:
        hint = "check the name and version in spark.jars.packages, and whether its repository can be reached from here"
        name = unresolved[1].replace("#", ":").replace(";", ":")
        return JobError("Spark cannot get a package", found=name, consequence=_UNCHANGED, hint=hint)
    if "maximum heap" in text:
        hint = "--conf spark.driver.memory=512m is the least"
        return JobError("Spark did not start", found=found, consequence=_UNCHANGED, hint=hint)
    if "IllegalArgument" in text:
        return UsageError("Spark does not accept a setting", found=found, consequence=_UNCHANGED)
    return JobError("Spark did not start", found=found, consequence=_UNCHANGED, hint=_START)


def story(error: BaseException) -> str:
    """The text of an exception and of its causes, the innermost last."""
    parts = []
    java = getattr(error, "java_exception", None)
    if java is not None:
        parts.extend(_causes(java))
    else:
        parts.append(str(error))
    return "\n".join(parts)


def summary(text: str) -> str:
    """The part of an exception that describes the fault, in one line.

    The part is the last line of the first Python traceback in the text, or the last cause of the Java exception.
    """
    python = _RAISED.search(text)
    if python is not None:
        return python[1].strip()[:_LONGEST]
    wanted = []
    for line in text.splitlines():
        bare = line.strip()
        if bare and not bare.startswith(_NOISE):
            wanted.append(bare.removeprefix("Caused by: "))
    last = wanted[-_LINES:] if _names_a_class(wanted) else wanted[:_LINES]
    return " ".join(_CLASS.sub("", line) for line in last)[:_LONGEST] or "no reason was given"


def _names_a_class(lines: list[str]) -> bool:
    return any(_CLASS.match(line) for line in lines[1:])


def tail_of(log: Path, lines: int = 5) -> str:
    """The last lines of the log of a JVM that did not start."""
    try:
        found = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return ""
    told = [line for line in found if not line.startswith(("at ", "..."))]
    return " / ".join(told[-lines:])[:_LONGEST]


def _causes(java: Any) -> list[str]:
    found: list[str] = []
    # Causes of Java exceptions can form a ring.
    while java is not None and len(found) < 10:
        found.append(str(java.toString()))
        java = java.getCause()
    return found


def _is_full(text: str) -> bool:
    return any(mark in text for mark in _FULL)


def _is_foreseen(error: BaseException) -> bool:
    """Whether the exception concerns the job or its data, and is not a bug in jetool."""
    return isinstance(error, OSError) or type(error).__module__.partition(".")[0] in ("pyspark", "py4j", "pyarrow")
