"""The services of a node for other nodes of a group of JE, and for their tools (je-ha-protocol.md): the server side.

* ``caller``: the connection of a caller
* ``copies``: service LogFileFeeder: copies the log files of this node while it runs
* ``port``: the port of a node, which connects callers to services
* ``questions``: short questions to a node of a group
* ``record_blocks``: service LDiff: digests of the records of this node's databases
* ``record_requests``: service JetoolRecords: reads and writes records through a node
"""
