"""A jetool node as arbiter of a group: it votes, and acknowledges commits in place of a missing data node.

* ``arbiter_file``: the file in which an arbiter keeps what it acknowledged, as JE writes it
* ``arbiter_node``: the running arbiter
"""
