"""Tables of Derby databases with an SQL catalogue.

* ``rows``: output records
* ``verbs``: ``dbs``, ``scan`` and ``dump`` on them
"""
