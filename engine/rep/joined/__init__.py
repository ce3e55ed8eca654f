"""A node of ours in a group of JE: an environment that follows the master by JE's own protocol.

* ``answering``: what others may ask the node: its state, the members it knows
* ``link``: one connection with the master: places in its stream, then entries and heartbeats
* ``node``: the node: looks for the master, syncs up, replays, and begins again when the master has gone
* ``restoring``: network restore from a node of JE
"""
