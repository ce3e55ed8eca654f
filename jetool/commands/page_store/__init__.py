"""The verbs of records on a page store.

Modules:

* ``rows``: what the verbs of records print of a page store
* ``verbs``: create, put, get, delete, scan, dump, load, dbs
"""
