"""``jetool dump-log``: selection, rendering in one process or in several, and its text, rows and XML."""
