"""``jetool group``: the replication group that an environment belongs to."""
