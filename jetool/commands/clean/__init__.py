"""``jetool clean``: the log cleaner, offline.

Modules:

* ``command``: the command
* ``reactivation``: ``--reactivate``
* ``rows``: its output records
"""
