"""The VLSN index maps each entry of the replication stream to its place in the local log.

``vlsn_range`` and ``bucket`` are the two kinds of records. ``tracker`` holds unflushed entries, and the mappings that
recovery collects. ``index`` combines the tracker with the database of flushed buckets (``database``);
``recovery_merge`` merges the mappings from recovery into the stored index. ``scanner`` walks the index for feeders and
syncup; ``entry_waiters`` lets feeders wait for the next entry. Rules R-VLSN-1 to 75 of je-behaviour.md.

The package does not depend on logs, trees or transactions: it receives entries as VLSN, LSN and type, and the engine
implements the protocol for its database.

Also here:

* ``compare``: comparison of two nodes: where their streams were last the same, and what each has after that
* ``ghost``: ghost buckets: placeholders for a VLSN whose mapping is gone
* ``limits``: how large buckets become, and how many of them stay in memory
* ``memory_index``: an in-memory database of an index
* ``rebuild``: rebuilding the index from the log if it is damaged or missing
* ``recent_buckets``: a cache of stored buckets, so that lookups need not decode them again
* ``syncup_decision``: what a replica does once its matchpoint with the master is known
* ``truncate``: the database changes of truncating the index, computed before anything is written
* ``verify``: checks of a VLSN index against its own rules
"""
