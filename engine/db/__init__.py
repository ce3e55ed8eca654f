"""The public face of the engine: Environment, Database, Transaction, Cursor, EnvironmentConfig.

Modules:

* ``arguments``: keys, data, names and options of calls, checked before anything changes
* ``compressor``: the queue of BINs whose deleted slots may go
* ``config``: settings of an environment: the ``je.*`` parameters by their names, and ``je.properties``
* ``cursor``: a cursor: a position among the records of a database
* ``daemons``: background threads of an environment: checkpointer, evictor, INCompressor and log flusher
* ``database``: one database: get, put, delete, ranges, cursors
* ``engine``: an open environment from inside: its parts, connected, and what those who know them do with them
* ``environment``: an environment as applications see it: the databases in it, transactions, checkpoints, closing
* ``extinction``: ranges of records that go without a deletion for each; databases that JE left half removed
* ``memory``: how much memory there is, and how much of it the cache of an environment takes by default
* ``startup``: opening an environment: from the files of a directory to connected parts
* ``parts``: the parts of an open environment, connected
* ``record_keys``: keys and records as applications know them, and as trees compare them
* ``scan``: walking records in key order, under locks or without
* ``secondary``: records of a primary, found by other keys; foreign keys
* ``secondary_cursor``: a cursor over a secondary; joins
* ``sequence``: numbers that are given out once, in JE's record
* ``stream``: the replication stream of an open environment
* ``stream_replay``: the replication stream of a part of the log, told to a listener
* ``transaction``: the handle of a transaction
* ``txn_ends``: what waits for the end of a transaction
* ``vlsn_index``: the VLSN index of an open environment, in its database
* ``whole_tree``: what goes over the whole tree of a database: counting, loading, scanning in disk order
* ``write_operation``: one writing operation: in the transaction of the caller, in one of its own, or without one
* ``writes``: writing records, with the secondaries and foreign keys that hang on them
"""
