"""The data pipeline on Spark: bulk load, export, the log as a data source, work over fleets.

Rules:

* Only this package imports pyspark, numpy, pandas and pyarrow, and only inside functions or in modules that are loaded
  when a job is started: a command that needs no Spark never loads it.
* There is one place that makes a session (``session``). On one machine that is Spark's local mode inside the process
  that asked; with ``--master`` the same jobs run on a cluster.
* What runs on executors takes and returns plain values and Arrow batches, and imports ``engine`` only.

``sources`` registers the data sources ``jelog``, ``jerecords`` and ``jegroup``; ``inventory`` names environments and
shares out files.

``java`` finds a Java runtime, ``settings`` decides the configuration, ``scratch`` keeps what a session writes in one
directory, ``failures`` turns what the JVM throws into errors of ours, ``job_run`` runs one job with progress.

Also here:

* ``class_archive``: Spark's classes as the JVM keeps them in memory, in a file: most of a start of Spark
* ``decoded_columns``: the columns that ``decode`` adds to records
* ``executors``: executors that do not come: a deadline for clusters that have none to give
* ``export``: exporting a database: its records, as recovery would leave them, as files that other programs read
* ``fleet``: work over many environments in one Spark job
* ``group_source``: ``format("jegroup")``: what is committed in a running group of JE nodes, in batches and as a stream
* ``load``: bulk load: sorted records become finished log files
* ``log_columns``: the columns of the ``jelog`` data source, and how they are filled from log entries
* ``log_rows``: rows of log entries as Arrow batches, and what the sources take for paths and schemas
* ``log_source``: ``spark.read.format("jelog")``: the entries of the logs of many environments as rows
* ``log_stream_source``: ``spark.readStream.format("jelog")``: entries that are appended to the logs of environments
* ``record_limits``: what conditions on rows of ``jerecords`` say of where to look
* ``record_source``: ``spark.read.format("jerecords")``: the records of databases as rows, as recovery would leave
  them
* ``recovered_once``: an environment that was not closed, recovered once for all tasks that read it
* ``package_archive``: the package as a zip, for executors that do not have it
* ``tables``: small tables as a Parquet dataset
* ``python_side``: Python packages that a job needs, and what a Python worker of Spark does once
"""
