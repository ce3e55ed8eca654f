"""``jetool node``: running nodes of a replication group, and requests to them."""
