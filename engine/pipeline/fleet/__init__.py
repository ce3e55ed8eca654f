"""Work over many environments in one Spark job.

A task reads some consecutive files of an environment and returns facts, never rows: what a report needs of 64 MB of log
is a few kilobytes. Facts of neighbouring parts are joined in log order, so that it does not matter how the files were
shared out.

* ``log_facts``: what one pass over a part notes, and how two parts are joined; pure.
* ``collect_facts``: the pass.
* ``profile``: the facts of a whole environment as what a report says of it; pure.
* ``groups``: the nodes of each replication group beside each other; pure.
* ``node_streams``: the replication stream of a node; pure.
* ``jobs``: the Spark jobs, an RDD of parts each.
* ``salvage``: records out of damaged logs, the one job with rows: ``engine.rescue.salvage``, a task for each group or
  environment; ``salvage_tasks`` is what executors do.

All but ``jobs`` and ``salvage`` know nothing of Spark and are imported by executors, which import nothing of the
command line.

Also here:

* ``verify``: verifying a fleet: two jobs; ``verify_tasks`` is what executors do
"""
