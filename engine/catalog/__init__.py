"""Databases by id and by name: the mapping tree (MapLN) and the naming tree (NameLN), R-TREE-3 to R-TREE-5.

Modules:

* ``catalog``: databases by id and by name
* ``name_operations``: creating, removing, renaming and truncating databases
* ``name_replay``: replays the naming operations of a replication stream on a replica
"""
