"""Clients of real nodes of JE: what looks at groups and copies nodes.

* ``call``: a connection that belongs to a service, and one question to a text service
* ``connection``: the seam to the network
* ``hot_copy``: a hot copy of a running node
* ``feeder_stream``: what a master is asked and sends after the handshake
* ``handshake``: what is agreed with a master before its stream, and its clock
* ``log_files``: the log files of a running node
* ``group_state``: who is in a group, who is master, how far each node is
* ``master_transfer``: asking the master of a group of JE to give its role to another member
* ``tls``: TLS over any connection, as JE has it
"""
