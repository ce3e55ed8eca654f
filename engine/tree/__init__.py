"""B+trees: nodes in memory, search, splits, deltas, compression, and ``apply``, the one place that redoes or undoes an
LN.

Rules: R-TREE-1 to R-TREE-61 and R-REC-44, R-REC-52 of je-behaviour.md. A node in memory is mutable and keeps full
keys; prefixes, compact LSNs and embedded data in keys exist only in the codec (``node_codec``). All access is under one
latch per environment (``TreeContext.latch``), which plays the part of JE's node latches: an operation that logs an LN
changes the slot before it lets go (R-TREE-20).

Also here:

* ``bin_node``: a bottom node in memory: the slots that lead to records
* ``comparators``: orders of known embedders, by the Java class that their databases name
* ``compress``: removing deleted slots and empty branches
* ``context``: the environment as the trees see it
* ``database_state``: what the trees know of one database
* ``in_node``: an internal node in memory
* ``keys``: key order: how stored keys become values that Python compares as the database does
* ``native_nodes``: searches and slots of nodes in C, where the native build has them
* ``node_log``: logging one node: delta or full, its slot in the parent, what becomes obsolete
* ``order``: learning the order of a database from its nodes, where the order is that of a Java class that is not
  registered
* ``spill``: changed nodes that the cache cannot hold while nothing can be logged
* ``split``: splits
* ``tree``: search in one tree, fetching nodes when they are needed, and its creation
"""
