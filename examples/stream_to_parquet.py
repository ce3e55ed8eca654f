"""Follow the log of an environment into a Parquet table: each entry once, whatever stops the query. Any sink of Spark
that works with a checkpoint does; this example, and its test, know Parquet.

python examples/stream_to_parquet.py 2
"""

# %% A session, an environment in a new directory, and places for the table and for how far the query has come.
from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from engine import Environment, EnvironmentConfig
from engine.pipeline.session import open_session
from engine.pipeline.settings import SparkSettings
from engine.pipeline.sources import register

rounds = int(sys.argv[1])
with tempfile.TemporaryDirectory() as directory, open_session(SparkSettings(cores=2, quick=True)) as session:
    env, table, checkpoint = (Path(directory) / name for name in ("env", "table", "checkpoint"))
    env.mkdir()
    spark = session.spark
    register(spark)

    for number in range(rounds):
        # %% The application writes. It needs no connection to Spark, and Spark none to it: only files are read.
        with (
            Environment(str(env), EnvironmentConfig(create=True)) as opened,
            opened.open_database("orders") if number else opened.create_database("orders") as orders,
        ):
            for order in range(100):
                with opened.begin() as txn:
                    orders.put(f"{number}-{order:03d}".encode(), b"lamp", txn)

        # %% What was appended since the last batch. Without availableNow the query goes on until it is stopped.
        entries = spark.readStream.format("jelog").schema("lsn string, type string, txn bigint, time timestamp")
        query = entries.load(str(env)).writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
        query.trigger(availableNow=True).start(str(table)).awaitTermination()

        # %% The table has each entry once.
        rows = spark.read.parquet(str(table))
        commits = rows.where("type = 'Commit'")
        once = rows.select("lsn").distinct().count() == rows.count()
        print(f"{commits.count()} commits, {commits.select('txn').distinct().count()} transactions, each once: {once}")
