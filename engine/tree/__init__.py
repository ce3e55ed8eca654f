"""B+trees: nodes in memory, search, splits, deltas, compression, and ``apply``, the only module that redoes or undoes
an LN.

Rules: R-TREE-1 to R-TREE-61 and R-REC-44, R-REC-52 of je-behaviour.md. A node in memory is mutable and keeps full keys;
prefixes, compact LSNs and embedded data in keys exist only in the codec (``node_codec``). All access is under one latch
per environment (``TreeContext.latch``), which replaces JE's node latches: an operation that logs an LN changes the slot
before it releases the latch (R-TREE-20).

Also here:

* ``bin_node``: a bottom node in memory: the slots that lead to records
* ``comparators``: known orders of keys, by the Java class that a database names
* ``compress``: removing deleted slots and empty branches
* ``context``: the environment as seen by the trees
* ``database_state``: the state of one database that the trees use
* ``in_node``: an internal node in memory
* ``keys``: key order: how stored keys become values that Python compares as the database does
* ``node_log``: logging one node: delta or full, the update of its parent's slot, obsolete versions
* ``nodes_ahead``: nodes that a pass in key order comes to next, read by threads
* ``order``: learning the order of a database from its nodes, if its Java class is not registered
* ``spill``: changed nodes that the cache cannot hold while nothing can be logged
* ``split``: splits
* ``tree``: searching one tree, fetching nodes on demand, and creating a tree
* ``values_ahead``: the data of records that a walk comes to next, read by threads
"""
