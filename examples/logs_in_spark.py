"""Ask questions about logs with Spark, cell by cell as in a notebook. Paths with commas between, or globs.

python examples/logs_in_spark.py tests/golden/je-17/ha-rollback,tests/golden/je-17/torn-cut-mid
"""

# %% A session. In a notebook that has one already, ``register(spark)`` is all that is needed.
from __future__ import annotations

import sys

from engine.pipeline.session import open_session
from engine.pipeline.settings import SparkSettings
from engine.pipeline.sources import register

with open_session(SparkSettings(cores=2, quick=True)) as session:
    spark = session.spark
    register(spark)
    logs = sys.argv[1]

    # %% Every entry of every log is a row: what takes the room? Only the columns that are named are built.
    print("bytes by type")
    entries = spark.read.format("jelog").schema("environment string, type string, total_size bigint").load(logs)
    by_type = entries.where("type is not null").groupBy("type").sum("total_size").toDF("type", "bytes")
    for row in by_type.orderBy("bytes", ascending=False).limit(4).collect():
        print(f"  {row.type:<12} {row.bytes:>6}")

    # %% Which transactions did a rollback take back? Of a large log .option("pushDown", "true") builds no other rows.
    print("rolled back")
    rows = spark.read.format("jelog").load(logs)
    hidden = rows.where("invisible = true").groupBy("txn").agg({"vlsn": "min", "lsn": "count"})
    for row in hidden.toDF("txn", "first", "records").orderBy("first").collect():
        print(f"  transaction {row.txn}: {row.records} records from VLSN {row.first} on")

    # %% What is damaged?
    print("damage")
    for row in rows.where("reason is not null").select("path", "lsn", "reason", "skipped").collect():
        print(f"  {row.path} at {row.lsn}: {row.reason}, {row.skipped} bytes")

    # %% The records that recovery would leave, of all databases; any join with the log is possible.
    # It fails where commits stand after damage; .option("onDamage", "ignore") reads what is left.
    print("records")
    records = spark.read.format("jerecords").load(logs)
    for row in records.groupBy("db").count().orderBy("count", "db", ascending=False).limit(3).collect():
        print(f"  {row.db:<12} {row['count']:>6}")
