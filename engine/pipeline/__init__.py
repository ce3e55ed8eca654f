"""The data pipeline on Spark: bulk load, export, the log as a data source, work over fleets.

Rules:

* Only this package imports pyspark, numpy, pandas and pyarrow, and only inside functions or in modules that are loaded
  when a job is started: a command that needs no Spark never loads it.
* There is one place that makes a session (``session``). On one machine that is Spark's local mode inside the process
  that asked; with ``--master`` the same jobs run on a cluster.
* What runs on executors takes and returns plain values and Arrow batches, and imports ``engine`` only.

``sources`` registers the data sources ``jelog`` and ``jerecords``; ``inventory`` names environments, shares out files.

``java`` finds a Java runtime, ``settings`` decides the configuration, ``scratch`` keeps what a session writes in one
directory, ``failures`` turns what the JVM throws into errors of ours, ``running`` runs one job with progress.
"""
