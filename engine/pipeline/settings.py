"""The configuration of a session.

From strongest to weakest: ``--master`` and ``--conf``; the user's ``spark-defaults.conf`` (in ``SPARK_CONF_DIR``, or
``SPARK_HOME/conf``); the defaults of this module. What is decided here: Spark's local mode with one thread per process
allowed, everything on the loopback address, no web page, memory that fits the machine, times in UTC.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from engine.errors import UsageError

_MIB: Final = 1 << 20
# Number of attempts for a task: a Python worker killed by the system should not fail the job.
_ATTEMPTS: Final = 4
# Spark takes seconds to start; processes of this machine read this much in a few seconds.
SMALL_BYTES: Final = 1 << 30
# Spark refuses to start a driver with less than 450 MiB.
_LEAST_MIB: Final = 512
_PER_CORE_MIB: Final = 1024
_MOST_MIB: Final = 16 * 1024
_CGROUP: Final = Path("/sys/fs/cgroup/memory.max")
_LOOPBACK: Final = re.compile(r"local(\W|-cluster|$)|spark://(127\.0\.0\.1|localhost|\[::1\]):")

# Compile quickly rather than well, and use one thread for garbage collection: halves the start time of jobs of a few
# seconds.
QUICK_FLAGS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
# Size of the data for a task after a shuffle.
_SHUFFLED_BYTES: Final = 16 * _MIB

LOG_CONFIGURATION: Final = """rootLogger.level = error
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = %s
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %%d %%p %%c: %%m%%n%%ex
"""


class SparkSettings(NamedTuple):
    """The user's options.

    Attributes:
        master: URL of a cluster, ``local[N]``, or None for the master in ``spark-defaults.conf``, else local mode.
        conf: Spark's settings, as pairs.
        cores: threads of local mode.
        quick: the job is small, so start fast rather than run fast.
    """

    master: str | None = None
    conf: tuple[tuple[str, str], ...] = ()
    cores: int = 1
    quick: bool = False


def parse_conf(texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Parse settings in the form ``NAME=VALUE``.

    Arguments:
        texts: such as ``spark.driver.memory=4g``.

    Raises:
        UsageError: no ``=``, or not a name of Spark's.
    """
    pairs = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"(spark|hive)\.\S+", name):
            raise UsageError(
                "a setting of Spark is written NAME=VALUE",
                expected="a name such as spark.driver.memory",
                found=text,
                hint="see https://spark.apache.org/docs/latest/configuration.html",
            )
        pairs.append((name, value))
    return tuple(pairs)


def defaults_of_user(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings in the user's ``spark-defaults.conf``.

    Spark applies them itself, so they are only inspected here.
    """
    directory = environment.get("SPARK_CONF_DIR")
    if directory is None and environment.get("SPARK_HOME"):
        directory = str(Path(environment["SPARK_HOME"]) / "conf")
    if directory is None:
        return {}
    try:
        lines = (Path(directory) / "spark-defaults.conf").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (re.split(r"[\s=:]+", line.strip(), maxsplit=1) for line in lines if not line.lstrip().startswith("#"))
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}


def is_local(master: str) -> bool:
    """Whether the driver and its processes are all on this machine, so that loopback is enough."""
    return _LOOPBACK.match(master) is not None


def starts_spark(size: int, *, shuffles: bool, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether Spark runs a job over local files, if the user has not decided.

    Spark's local mode has the cores of this machine, as the processes of the local engine have, and needs seconds to
    start; so it runs only large jobs that shuffle. A large job without a shuffle runs on Spark if
    ``spark-defaults.conf`` names a cluster.

    Arguments:
        size: bytes to read.
        shuffles: the job has a shuffle on Spark, and none in the local engine.
        environment: variables.
    """
    if size < SMALL_BYTES:
        return False
    return shuffles or not is_local(defaults_of_user(environment).get("spark.master", "local"))


def needs_package(master: str) -> bool:
    """Whether executors are separate processes, which need this package sent to them."""
    return re.fullmatch(r"local(\[.*\])?", master) is None


def configuration(
    settings: SparkSettings, scratch: Path, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """All settings that a session passes to Spark.

    Arguments:
        settings: the user's options.
        scratch: the directory of the session.
        environment: variables.

    Returns:
        The settings, including ``spark.master``; those in ``spark-defaults.conf`` are left to Spark.
    """
    chosen = defaults_of_user(environment)
    given = dict(settings.conf)
    if settings.master is not None:
        given["spark.master"] = settings.master
    master = given.get("spark.master") or chosen.get("spark.master") or f"local[{settings.cores},{_ATTEMPTS}]"
    ours = {
        "spark.app.name": "jetool",
        "spark.master": master,
        "spark.driver.memory": f"{driver_memory_mib(settings.cores)}m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    # Spark prefers the environment variable, so the setting would have no effect.
    if "SPARK_LOCAL_DIRS" not in environment:
        ours["spark.local.dir"] = str(scratch)
    if is_local(master):
        ours |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    # Explicit options override the user's file, and the file overrides the defaults.
    result = {name: value for name, value in ours.items() if name not in chosen} | given
    flags = [f"-Dlog4j2.configurationFile={(scratch / 'log4j2.properties').as_uri()}", "-XX:-UsePerfData"]
    flags += [QUICK_FLAGS] if settings.quick else []
    # The user's flags come last, since the JVM uses the last of contradictory flags.
    users = given.get(JAVA_OPTIONS) or chosen.get(JAVA_OPTIONS) or ""
    result[JAVA_OPTIONS] = " ".join([*flags, users]).rstrip()
    return result


def shuffle_partitions(size: int, cores: int) -> int:
    """Number of partitions for a shuffle of ``size_bytes``: one for each core, and more for large data.

    Spark's default of 200 is for clusters: each partition is a task, which with Python costs a tenth of a second even
    if it is empty.
    """
    return max(cores, -(-size // _SHUFFLED_BYTES), 1)


def driver_memory_mib(cores: int) -> int:
    """Memory of the driver, which does all the work in local mode: 1 GiB per core, up to a quarter of the machine."""
    fits = memory_bytes() // 4 // _MIB
    return max(_LEAST_MIB, min(fits, _PER_CORE_MIB * max(cores, 1), _MOST_MIB))


def memory_bytes() -> int:
    """Memory of the machine, or of the container of this process."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = int(_CGROUP.read_text())
    except (OSError, ValueError):  # no such file, or the word max
        return total
    return min(total, limit)
