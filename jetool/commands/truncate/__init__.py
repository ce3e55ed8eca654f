"""``jetool truncate``: the cut, and what it prints."""
