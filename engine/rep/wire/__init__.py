"""The messages between nodes of JE, as pure codecs (je-ha-protocol.md): bytes to frozen records and back.

No sockets, no clock, no files. ``inbox`` decodes received bytes. Only ``Table.encode`` and ``LineTable.encode`` make
bytes to send, and they verify that these decode to the same message. For any bytes, FormatError is the only error.

Modules:

* ``batches``: messages of a stream by the thousand
* ``log_file_feeder``: service LogFileFeeder: the log files of a live node
* ``election_lines``: services Acceptor and Learner: elections and their results
* ``entries``: entries of the stream: their header, meaning, and form for replication
* ``feeder``: service Feeder: handshake, syncup and stream
* ``group_lines``: services Group, NodeState and Monitor: members and their states
* ``inbox``: decodes the bytes received over a connection
* ``lines``: text messages, one a line
* ``messages``: binary messages: classes, frames, and tables of the messages that each side may send
* ``node_state``: service BinaryNodeState: role, VLSNs, releases and load of a node
* ``record_blocks``: service LDiff: digests of the records of a database, block by block
* ``records``: service JetoolRecords: records of a running node
* ``services``: the request for a service at the start of a connection
* ``values``: the types that fields of binary messages have
"""
