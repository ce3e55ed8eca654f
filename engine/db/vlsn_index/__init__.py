"""The VLSN index of an open environment, in its database.

* ``head``: the head of the index where reserved files are missing
* ``store``: the index of a replicated environment in its database, and what recovery tells it
* ``view``: the index of an environment open for reading
"""
