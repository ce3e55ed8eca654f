"""``jetool stream``: changes in a running group, transaction by transaction."""
