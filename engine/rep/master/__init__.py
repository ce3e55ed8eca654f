"""The master of a group of JE: real nodes of JE join it and follow it (je-ha-protocol.md section 16).

* ``arbiter_feed``: service Feeder for an arbiter
* ``feeder_session``: one connection with a node that is fed
* ``feeder``: service Feeder: one replica of a master
* ``group_changes``: changes of the group requested by tools
* ``handshake``: the master's side of the handshake
* ``membership``: the members of a group of JE, as its master writes them
* ``feeder_entries``: entries of this node's log as a feeder of JE sends them
* ``term``: one term of a master of a group of JE
* ``election``: the promises of a member in elections, and notification of results
* ``promises``: the file that keeps them
"""
