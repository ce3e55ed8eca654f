"""``jetool journal``: the journals of a frontend, and what it prints of them."""
