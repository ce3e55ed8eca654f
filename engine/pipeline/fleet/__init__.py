"""Work over many environments in one job, on Spark or in processes of this machine.

A task reads some consecutive files of an environment and returns facts, never rows: the facts of 64 MB of log take a
few kilobytes. Facts of neighbouring parts are joined in log order, so the result does not depend on how files were
divided among tasks.

* ``log_facts``: the facts of a part, collected in one pass, and how two parts are joined; pure.
* ``collect_facts``: the pass.
* ``profile``: the facts of a whole environment in the form of a report; pure.
* ``groups``: compares the nodes of each replication group; pure.
* ``node_streams``: the replication stream of a node; pure.
* ``backends``: where tasks run.
* ``jobs``: reports and comparisons; on Spark an RDD of parts each.
* ``salvage``: records from damaged logs; the only job with rows: it runs ``engine.rescue.salvage`` in a task for each
  group or environment; ``salvage_tasks`` runs in tasks, ``salvage_files`` writes files without Spark.

Except ``backends``, ``jobs`` and ``salvage``, the modules do not use Spark and are imported by executors, which import
nothing of the command line.

Also here:

* ``verify``: verifies a fleet in two jobs; ``verify_tasks`` runs on executors
"""
