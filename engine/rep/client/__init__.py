"""Clients of real nodes of JE, for inspecting groups and copying nodes.

* ``call``: a connection to a service, and single questions to text services
* ``connection``: the interface to the network
* ``hot_copy``: a hot copy of a running node
* ``feeder_stream``: the messages with a master after the handshake
* ``handshake``: the negotiation with a master before its stream, and its clock
* ``log_files``: the log files of a running node
* ``group_state``: the members of a group, its master, and the position of each node
* ``master_transfer``: asks the master of a group of JE to transfer its role to another member
* ``record_blocks``: the digests of a running node's records, block by block, and the records of a block
* ``tls``: TLS over any connection, as in JE
"""
