"""Analyses that only tools need: surveys of a log, selections, counts, comparisons of streams, maps, fates, crash
points.

Applications of the engine do not call these modules. Nothing here changes an environment: simulated crashes work on
storages that the caller passes in.

Modules:

* ``checkpoint_interval``: the log from a checkpoint on: the entries after it, and the work that recovery would do
* ``common_log``: the part of two logs that is equal byte for byte, for copies of one environment
* ``contents``: an environment as input for kinds of contents
* ``crash_matrix``: the crash matrix: crash at many points of a log, recover, compare with a model
* ``crash_points``: crash drills on an existing log: the state that a crash or a failing disk would leave
* ``database_name``: the name of one database, looked up in the mapping tree as a checkpoint left it
* ``explain``: why recovery applies or ignores each entry of a log
* ``fates``: the fate of every transaction in the log, and of every version of a record
* ``follow``: following a log while another process writes it (``dump-log --follow``)
* ``group_record``: the replication group that a log belongs to
* ``key_formats``: bytes as text and back: the formats of ``--key-format`` and ``--data-format``
* ``key_ranges``: cutting a database into key ranges of about the same size, so that several readers can share it
* ``ldap_backend``: an LDAP backend as a whole: its entries with their DNs, and whether its indexes agree with them
* ``log_stream``: the replication stream of a log, read once: its facts, where files are missing, what is damaged
* ``record_diff``: the records of two environments side by side, by database and key
* ``recovery_estimate``: the cost of a recovery, estimated from the end of the log and a sample
* ``rollback_report``: a readable report of rollback periods: from the log alone, nested, with the records in each
* ``selection``: choosing entries: the filters of ``dump-log``
* ``statistics``: counting a log by type, file, database or transaction
* ``stream_diff``: two logs of one group compared entry by entry: the first VLSN at which their streams differ
* ``survey``: a summary of the control entries of a log, for an operator's first look at an environment
* ``unread_records``: records after damage in the log, where recovery does not read
* ``vlsn_find``: finding the entry of a VLSN: the nearest mapping of the index, then a forward read of the log
* ``vlsn_map``: VLSNs per log file, and the gaps between them, from the log itself
"""
