"""What nodes of JE send each other, as pure codecs (je-ha-protocol.md): bytes to frozen records and back.

No sockets, no clock, no files. ``inbox`` takes apart what comes, ``Table.encode`` and ``LineTable.encode`` are the only
way to make what leaves, and hand out nothing that does not give the same message when it is read again. Whatever the
bytes are, FormatError is the only error.

Modules:

* ``batches``: messages of a stream by the thousand
* ``log_file_feeder``: service LogFileFeeder: the log files of a live node
* ``election_lines``: services Acceptor and Learner: elections, and who the master is
* ``entries``: entries of the stream: their header, what they mean, their form for replication
* ``feeder``: service Feeder: handshake, syncup and stream
* ``group_lines``: services Group, NodeState and Monitor: members and their states
* ``inbox``: what has come over a connection, taken apart
* ``lines``: text messages, one a line
* ``messages``: binary messages: classes, frames, tables of what a side may send
* ``node_state``: service BinaryNodeState: role, VLSNs, releases and load of a node
* ``records``: service JetoolRecords: records of a running node
* ``services``: how a connection begins
* ``values``: the types that fields of binary messages have
"""
