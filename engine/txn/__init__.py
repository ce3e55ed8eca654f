"""Transactions: record locks and what owns them.

``lock_types`` holds the conflict and upgrade tables as data, ``lock_entry`` one lock, ``deadlock`` the search for
cycles, ``locks`` the table that threads use. Rules R-TXN-1 to 11, 20 and 24 to 26 of je-behaviour.md. The catalog,
the cursors and recovery import this package; it imports the log and what is below it.
"""
