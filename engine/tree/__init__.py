"""B+trees: nodes in memory, search, splits, deltas, compression, and ``apply``, the one place that redoes or undoes an
LN.

Rules: R-TREE-1 to R-TREE-61 and R-REC-44, R-REC-52 of je-behaviour.md. A node in memory is mutable and keeps full
keys; prefixes, compact LSNs and embedded data in keys exist only in the codec (``node_codec``). All access is under one
latch per environment (``TreeContext.latch``), which plays the part of JE's node latches: an operation that logs an LN
changes the slot before it lets go (R-TREE-20).
"""
