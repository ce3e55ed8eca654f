"""A node of ours in a group of JE: an environment that follows the master by JE's own protocol, or leads by turns.

* ``config``: how a node joins a group of JE
* ``elections``: elections, for a member that follows or leads by turns
* ``home``: the environment of a node that follows
* ``link``: one connection with the master: places in its stream, then entries and heartbeats
* ``monitors``: events for the monitors of a group
* ``node``: the node: looks for the master, syncs up, replays, and begins again when the master has gone
* ``network_restore``: network restore from a node of JE
* ``master_search``: finding the master of the group, and the handshake with it
* ``replica_stream``: the stream of a master on a replica: replayed, made durable, acknowledged
"""
