"""Transactions: record locks and what owns them.

``lock_types`` holds the conflict and upgrade tables as data, ``lock_entry`` one lock, ``deadlock`` the search for
cycles, ``locks`` the table that threads use. Rules R-TXN-1 to 11, 20 and 24 to 26 of je-behaviour.md. The catalog,
the cursors and recovery import this package; it imports the log and what is below it.

Also here:

* ``bulk_append``: records in the order of their keys, to the end of a database without other users
* ``chain``: the chain of one transaction's LNs
* ``ln_body``: the LN of a write: its type, its flags and fields, its body
* ``lock_errors``: errors of locking
* ``manager``: all transactions of an environment: ids, registration, commit, abort, prepare
* ``payload``: what a put or a deletion writes, and the entry types of each kind of record
* ``records``: reading and writing single records under locks
* ``rollback``: taking open transactions back to a matchpoint: what recovery and a running replica share
* ``txn``: one transaction: its id, its chain in the log, its locks, what its writes replaced
* ``undo``: undo of a transaction along its chain in the log
"""
