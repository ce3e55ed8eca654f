"""The VLSN index of an open environment, in its database.

* ``head``: cutting the head of the index where reserved files are missing
* ``store``: the index of a replicated environment in its database, the hook by which recovery fills it,
  and the replication stream of a part of the log
* ``view``: the index of an environment open for reading
"""
