"""``jetool backup``: taking, listing, checking and removing backups, and the output of these commands."""
