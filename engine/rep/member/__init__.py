"""A jetool node in a group of JE: an environment that follows the master by JE's own protocol, or leads itself.

* ``config``: how a node joins a group of JE
* ``elections``: elections, for a member that can lead
* ``home``: the environment of a node that follows
* ``link``: one connection to the master: questions about VLSNs, then entries and heartbeats
* ``monitors``: events for the monitors of a group
* ``node``: the node: finds the master, syncs up, replays, and starts over when the master is gone
* ``network_restore``: network restore from a node of JE
* ``master_search``: finding the master of the group, and the handshake with it
* ``replica_stream``: the stream of a master on a replica: replayed, made durable, acknowledged
* ``rounds``: the main thread of a member or an arbiter: rounds and pauses, until the node stops or fails
"""
