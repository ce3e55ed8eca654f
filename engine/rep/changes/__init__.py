"""The changes in a running group, by transaction (je-ha-protocol.md section 10).

A node of type EXTERNAL without an environment: it follows the stream of the current master, and yields transactions in
the order of their commits. To the group it is one more feeder. It never counts for acknowledgements or elections, or
for the files that the group keeps, and it stops reading only by leaving.

* ``after_copy``: where a stream continues after a copy of a node
* ``assembly``: entries of the stream become transactions, with bounded memory
* ``columns``: changes as rows of columns, for Spark and for files
* ``database_names``: the names of databases, followed through the stream
* ``feed``: one connection with a master: places in its stream, then entries and heartbeats
* ``position``: the position of a stream, exact enough to continue from it
* ``state_file``: a position in a file
* ``subscriber``: the stream itself, across connections and masters
* ``transactions``: the transactions and changes that a stream yields
"""
