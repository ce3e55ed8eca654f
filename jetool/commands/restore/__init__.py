"""``jetool restore``: restoring an environment from a backup, and the output records."""
