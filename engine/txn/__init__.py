"""Transactions: record locks and their owners.

``lock_types`` holds the conflict and upgrade tables as data, ``lock_entry`` one lock, ``deadlock`` the search for
cycles, ``locks`` the lock table that threads use. Rules R-TXN-1 to 11, 20 and 24 to 26 of je-behaviour.md. The catalog,
the cursors and recovery import this package; it imports only the trees, the log and lower packages.

Also here:

* ``bulk_append``: appending records in key order to the end of a database without other users
* ``chain``: the chain of one transaction's LNs
* ``ln_body``: building the LN of a write: type, flags, fields, encoded body
* ``lock_errors``: errors of locking
* ``manager``: all transactions of an environment: ids, registration, commit, abort, prepare
* ``payload``: the data that a put or a deletion writes, and the entry types of each kind of record
* ``records``: reading and writing single records under locks
* ``rollback``: rolling open transactions back to a matchpoint: code shared by recovery and running replicas
* ``txn``: one transaction: its id, its chain in the log, its locks, the versions that its writes replaced
* ``undo``: undo of a transaction along its chain in the log
"""
