"""``jetool journal``: the journals of a frontend, and their output records."""
