"""``jetool verify``: findings about an environment."""
