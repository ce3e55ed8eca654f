"""The public face of the engine: Environment, Database, Transaction, Cursor, EnvironmentConfig.

Modules:

* ``arguments``: records, names and options of calls, checked before anything changes
* ``compressor``: the queue of BINs whose deleted slots may be removed
* ``config``: settings of an environment: the ``je.*`` parameters by their names, and ``je.properties``
* ``cursor``: a cursor: a position among the records of a database
* ``daemons``: background threads of an environment: checkpointer, evictor, INCompressor and log flusher
* ``database``: one database: get, put, delete, ranges, cursors
* ``engine``: an open environment from inside: its connected parts, and the operations on them
* ``environment``: an environment as applications see it: its databases, transactions, checkpoints, closing
* ``extinction``: discarding ranges of records without a deletion for each; finishing removals that JE has begun
* ``key_range``: ranges of keys, as callers name them: bounds, prefixes, slices
* ``memory``: how much memory is free, and the default size of an environment's cache
* ``read_write``: what an environment needs only when it is open for writing
* ``startup``: opening an environment for reading, and the locks of readers and writers
* ``parts``: the parts of an open environment, connected
* ``record_keys``: keys and records as applications know them, and as trees compare them
* ``scan``: walking records in key order, under locks or without
* ``secondary``: records of a primary, found by other keys; foreign keys
* ``secondary_cursor``: a cursor over a secondary; joins
* ``sequence``: numbers that are given out once, stored in JE's record format
* ``stream``: the replication stream of an open environment
* ``transaction``: the handle of a transaction
* ``txn_ends``: actions that wait for the end of a transaction
* ``vlsn_index``: the VLSN index of an open environment, in its database
* ``whole_tree``: operations on the whole tree of a database: counting, loading, scanning in disk order
* ``write_operation``: one writing operation: in the transaction of the caller, in its own, or without a transaction
* ``writes``: writing records, with the secondaries and foreign keys that depend on them
"""
