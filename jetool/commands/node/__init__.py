"""``jetool node``: nodes of a replication group, run or asked."""
