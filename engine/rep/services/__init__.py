"""What a node answers to other nodes of a group of JE, and to their tools (je-ha-protocol.md): the server's side.

* ``caller``: who calls a node
* ``copies``: service LogFileFeeder: the log files of this node, copied while it runs
* ``port``: the port of a node
* ``questions``: short questions to a node of a group
* ``record_requests``: service JetoolRecords: records that are read and written through a node
"""
