"""A node of ours in a group of JE: an environment that follows the master by JE's own protocol.

* ``config``: how a node joins a group of JE
* ``link``: one connection with the master: places in its stream, then entries and heartbeats
* ``node``: the node: looks for the master, syncs up, replays, and begins again when the master has gone
* ``restoring``: network restore from a node of JE
"""
