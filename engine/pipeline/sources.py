"""Registers the data sources of this package in a Spark session of jetool or of a notebook.

Example::

    from engine.pipeline.sources import register

    register(spark)
    spark.read.format("jelog").load("/data/*/je").groupBy("environment", "type").count().show()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PUSH_DOWN: Final = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Register ``jelog``, ``jerecords`` and ``jegroup`` in a session, and let Spark push conditions down to them.

    Arguments:
        spark: the session. On a cluster the executors need the package, either installed or added with ``addPyFile``.
    """
    from engine.pipeline.group_source import GroupSource
    from engine.pipeline.log_source import LogSource
    from engine.pipeline.record_source import RecordSource

    spark.conf.set(_PUSH_DOWN, "true")
    spark.dataSource.register(LogSource)
    spark.dataSource.register(RecordSource)
    spark.dataSource.register(GroupSource)
