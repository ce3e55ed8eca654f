"""Registers the data sources of this package in a Spark session of jetool or of a notebook.

Example::

    from engine.pipeline.sources import register

    register(spark)
    spark.read.format("jelog").load("/data/*/je").groupBy("environment", "type").count().show()
"""

from __future__ import annotations

import platform
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.errors import UnsupportedError
from engine.events import SILENT
from engine.pipeline import failures, job_run, settings
from engine.pipeline.archive import package_archive
from engine.pipeline.python_side import has, require

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_PUSH_DOWN: Final = "spark.sql.python.filterPushdown.enabled"
# What the data sources need where they run; the least version is that of pyspark 4.3.
_NEEDED: Final = "pyarrow"
_INSTALLED: Final = "pyarrow>=18"
_NOTHING: Final = "no data source was registered"


class WorkerPython(NamedTuple):
    """A Python that runs tasks: the host, the program, whether it has what the data sources need."""

    host: str
    program: str
    is_ready: bool


def register(spark: SparkSession) -> None:
    """Register ``jelog``, ``jerecords`` and ``jegroup`` in a session, and let Spark push conditions down to them.

    On a cluster the executors get this package, unless they have it from an earlier call. One small job finds out
    whether they have pyarrow too.

    Arguments:
        spark: the session; registering twice is harmless.

    Raises:
        UnsupportedError: pyarrow is missing here or on an executor; the hint says what to install where. Or the session
            is one of Spark Connect.
        JobError: the cluster gives no executor, or Python does not start there.
    """
    require(_NEEDED)
    context: SparkContext | None = getattr(spark, "sparkContext", None)
    if context is None:
        raise UnsupportedError(
            "a session of Spark Connect cannot send this package to the executors",
            consequence=_NOTHING,
            hint="SparkSession.builder.master(URL) makes a session with its driver in this process",
        )
    ship_package(context)
    _require_everywhere(context)
    register_sources(spark)


def register_sources(spark: SparkSession) -> None:
    """Register the data sources in a session whose executors have what they need."""
    from engine.pipeline.group_source import GroupSource
    from engine.pipeline.log_source import LogSource
    from engine.pipeline.record_source import RecordSource

    spark.conf.set(_PUSH_DOWN, "true")
    spark.dataSource.register(LogSource)
    spark.dataSource.register(RecordSource)
    spark.dataSource.register(GroupSource)


def ship_package(context: SparkContext) -> None:
    """Send this package to the executors of a cluster, once."""
    if not settings.needs_package(context.master or ""):
        return
    if any(Path(uri).name == package_archive.NAME for uri in context.listFiles):
        return
    from pyspark import SparkFiles

    # Executors fetch the file whenever they start; this directory lasts as long as the application.
    directory = tempfile.mkdtemp(prefix="jetool-", dir=SparkFiles.getRootDirectory())
    context.addPyFile(str(package_archive.package_zip(Path(directory))))


def _require_everywhere(context: SparkContext) -> None:
    """Raise an error if an executor lacks pyarrow.

    As many tasks as there are cores: Spark gives every executor some of them.
    """
    cores = context.defaultParallelism
    work = context.parallelize(range(cores), cores).mapPartitions(python_here)
    with failures.explained(
        "Python does not run on the executors",
        consequence=_NOTHING,
        hint=f"they need Python {platform.python_version()} and {_INSTALLED}; PYSPARK_PYTHON names the program",
    ):
        found = job_run.run(context, work.collect, "check executors", SILENT)
    lacking = sorted({one for one in found if not one.is_ready})
    if lacking:
        first = lacking[0]
        hosts = ", ".join(dict.fromkeys(one.host for one in lacking))
        raise UnsupportedError(
            f"the executors lack the Python package {_NEEDED}",
            found=f"{first.program} on {hosts}",
            consequence=_NOTHING,
            hint=f"on each of these machines: {first.program} -m pip install '{_INSTALLED}'; or name another Python "
            "that has it in PYSPARK_PYTHON before the session starts",
        )


def python_here(_: Iterable[int]) -> Iterator[WorkerPython]:
    """Runs on executors: the Python of a task."""
    yield WorkerPython(platform.node(), sys.executable, has(_NEEDED))
