"""The data pipeline on Spark: bulk load, export, the log as a data source, and jobs over fleets.

Rules:

* Only this package imports pyspark, numpy, pandas and pyarrow, and only inside functions or in modules that are loaded
  when a job is started: a command that needs no Spark never loads it.
* Only ``session`` makes Spark sessions. By default this process starts Spark in local mode; with ``--master`` the same
  jobs run on a cluster.
* Code for executors takes and returns plain values and Arrow batches, and imports only ``engine``.

``sources`` registers the data sources ``jelog``, ``jerecords`` and ``jegroup``; ``inventory`` lists environments and
divides their files among tasks.

``java`` finds a Java runtime, ``settings`` decides the configuration, ``scratch`` is the directory for the files of a
session, ``failures`` converts exceptions of the JVM into errors of jetool, and ``job_run`` runs one job with progress.

Also here:

* ``class_archive``: an archive of Spark's loaded classes, which makes Spark start faster
* ``decoded_columns``: the columns that ``decode`` adds to records
* ``executors``: a deadline for clusters that provide no executors
* ``export``: exporting a database: its records, as recovery would leave them, as files that other programs read
* ``fleet``: work over many environments in one Spark job
* ``group_source``: ``format("jegroup")``: commits of a running group of JE nodes, in batches and as a stream
* ``load``: bulk load: sorted records become finished log files
* ``log_columns``: the columns of the ``jelog`` data source, and how they are filled from log entries
* ``log_rows``: rows of log entries as Arrow batches, and checks of the sources' paths and schemas
* ``log_source``: ``spark.read.format("jelog")``: the entries of the logs of many environments as rows
* ``log_stream_source``: ``spark.readStream.format("jelog")``: entries that are appended to the logs of environments
* ``record_limits``: limits of environments, databases and keys, derived from conditions on ``jerecords``
* ``record_source``: ``spark.read.format("jerecords")``: the records of databases as rows, as recovery would leave
  them
* ``source_options``: options of the data sources: unknown ones are errors, values are checked
* ``recovered_once``: an environment that was not closed, recovered once for all tasks that read it
* ``archive``: the package as a zip, for executors that lack it
* ``tables``: small tables as a Parquet dataset
* ``python_side``: Python packages that a job needs, and the setup of a Python worker of Spark
"""
