"""``jetool clean``: the log cleaner, offline.

Modules:

* ``command``: the command
* ``rows``: its output records
"""
