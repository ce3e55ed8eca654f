"""``jetool stream``: what changes in a running group, transaction by transaction."""
