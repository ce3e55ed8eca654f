"""The VLSN index: where in the local log each entry of the replication stream is.

``vlsn_range`` and ``bucket`` are the two kinds of record. ``tracker`` holds what is not yet flushed, and the mappings
that recovery collects; ``index`` joins it with the database of flushed buckets (``database``), ``recovery_merge`` joins
what recovery found with what is stored. ``scanner`` walks the index for feeders and syncup, ``entry_waiters`` lets them
wait for the next entry. Rules R-VLSN-1 to 75 of je-behaviour.md.

The package knows no log, no tree and no transaction: entries come to it as VLSN, LSN and type, and the database is a
protocol that the engine implements.

Also here:

* ``compare``: two nodes side by side: where their streams were last the same, and what each has beyond that
* ``ghost``: ghost buckets: a place in the index for a VLSN whose mapping is gone
* ``memory_index``: the database of an index in memory
* ``rebuild``: a new index from the log, in place of one that is damaged or gone
* ``recent_buckets``: stored buckets that were read lately, so that a look-up need not decode one again
* ``syncup_decision``: what a replica does when its matchpoint with the master is known
* ``truncate``: what truncating the index changes in its database, computed before anything is written
* ``verify``: checks of a VLSN index against its own rules
"""
