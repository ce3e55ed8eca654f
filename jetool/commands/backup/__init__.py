"""``jetool backup``: a hot copy of a node that runs."""
