"""``jetool backup``: taking, listing, checking and removing backups, and what these commands print."""
