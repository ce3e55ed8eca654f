"""Commands for records of a page store.

Modules:

* ``rows``: output records of these commands
* ``verbs``: create, put, get, delete, scan, dump, load, dbs
"""
