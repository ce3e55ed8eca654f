"""What only tools look at: surveys of a log, selections, counts, streams side by side, maps, fates, crash points.

Nothing that an application of the engine calls is here, and nothing here changes an environment: what a crash would
leave is made on storages that the caller hands in.

Modules:

* ``checkpoint_interval``: the log from a checkpoint on: what follows it, and what recovery would read
* ``common_log``: how far two logs are the same, byte for byte: what two copies of one environment have in common
* ``contents``: an environment as kinds of contents look at it
* ``crash_matrix``: the crash matrix: crash at many points of a log, recover, compare with a model
* ``crash_points``: crash drills on a log that exists: what a crash, or a failing disk, would leave of it
* ``database_name``: the name of one database, looked up in the mapping tree as a checkpoint left it
* ``explain``: why recovery applies or ignores each entry of a log
* ``fates``: what became of every transaction in the log, and of every version of a record
* ``follow``: following a log while another process writes it (``dump-log --follow``)
* ``group_record``: the replication group that a log belongs to
* ``key_formats``: bytes as text and back: the formats of ``--key-format`` and ``--data-format``
* ``key_ranges``: cutting a database into key ranges of about the same size, so that several readers can share it
* ``ldap_backend``: an LDAP backend as a whole: its entries with their DNs, whether its indexes agree with them
* ``log_stream``: the replication stream of a log, read once: its facts, where files are missing, what is damaged
* ``logical_content``: the logical content of an entry of the replication stream: what is the same on every node of a
  group
* ``record_diff``: the records of two environments side by side, by database and key
* ``recovery_estimate``: what a recovery would cost, from a look at the end of the log and a sample
* ``rollback_report``: rollback periods for people: from the log alone, nested, with the records in each
* ``selection``: choosing entries: the filters of ``dump-log``
* ``statistics``: counting a log by type, file, database or transaction
* ``stream_diff``: two logs of one group entry by entry: the first VLSN at which their streams are not the same
* ``survey``: what the control entries of a log say: the operator's first question about an environment
* ``vlsn_find``: the entry of a VLSN: by the index as near as it leads, then by reading the log forward
* ``vlsn_map``: VLSNs per log file, and the gaps between them, from the log itself
"""
