"""The page store after Apache Derby: ARIES logging and recovery on Derby's own files.

Packages and modules, bottom up:

* ``format``: pure codecs of the log, the pages and the container files.
* ``database``: what a Derby database directory holds; control files; who has it open.
* ``log``, ``log_tail``, ``log_walk``: the scans, the end of the log, what follows it; ``log_writer`` appends to it.
* ``pages``, ``containers``, ``cache``: live pages, the files that hold them, and the page cache.
* ``page_actions``, ``loggable``, ``compensate``: the three verbs of a loggable operation: do, undo, compensate.
* ``xact_table``, ``redo``, ``undo``, ``checkpoint``, ``recovery``: the passes of recovery and its closing checkpoint.
* ``database_info``, ``verify``, ``explain``: what an operator wants to know before recovery is run.
* ``store``: a page store of our own on the same files.

Rules are cited by their numbers in derby-behaviour.md (R-DRB-1 to R-DRB-73). Nothing here knows JE: the package imports
``engine.storage``, ``engine.errors`` and ``engine.events`` only.
"""
