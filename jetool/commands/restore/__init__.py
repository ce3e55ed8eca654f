"""``jetool restore``: an environment made of a backup, and what it prints."""
