"""The VLSN index: where in the local log each entry of the replication stream is.

``vlsn_range`` and ``bucket`` are the two kinds of record, ``tracker`` holds what is not yet flushed, ``index`` joins
it with the database of flushed buckets (``database``), ``recovery_tracker`` collects mappings while recovery reads
the log and ``recovery_merge`` joins them with what is stored, ``scanner`` walks the index for feeders and syncup,
``entry_waiters`` lets them wait for the next entry. Rules R-VLSN-1 to 75 of je-behaviour.md.

The package knows no log, no tree and no transaction: entries come to it as VLSN, LSN and type, and the database is a
protocol that the engine implements.
"""
