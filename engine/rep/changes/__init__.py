"""What changes in a running group, transaction by transaction (je-ha-protocol.md section 10).

A node of type EXTERNAL that keeps no environment: it follows the master's stream, wherever the master is, and hands out
transactions in the order of their commits. A group notices it as one feeder more; it never counts for acknowledgements,
elections or what the group keeps, and it stops reading only by leaving.

* ``after_copy``: where a stream goes on after a copy of a node
* ``assembly``: entries of the stream become transactions, with bounded memory
* ``columns``: changes as rows of columns, for Spark and for files
* ``database_names``: the names of databases, followed through the stream
* ``feed``: one connection with a master: places in its stream, then entries and heartbeats
* ``position``: how far a stream is, exactly enough to go on from there
* ``state_file``: a position in a file
* ``subscriber``: the stream itself, over as many connections and masters as it takes
* ``transactions``: transactions and their changes, as they are handed out
"""
