"""Checks of a Derby database; nothing is changed.

Modules:

* ``agreement``: compares indexes with their tables, and the pages of an index with each other
* ``check``: all checks of a database, and their order
* ``findings``: findings of ``verify``: stable codes, one line each, and the record that carries one
* ``log_checks``: checks of the log: groups, chain, transactions, the end and what follows it
* ``page_checks``: checks of containers and pages, each page against itself and against the log
* ``part``: checks of some log files, each by itself
* ``recovered``: compares indexes with their tables after recovery, for containers that recovery would change
"""
