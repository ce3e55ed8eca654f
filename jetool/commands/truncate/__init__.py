"""``jetool truncate``: the cut, and its output records."""
