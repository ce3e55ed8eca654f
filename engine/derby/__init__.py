"""The page store after Apache Derby: ARIES logging and recovery on Derby's own files.

Packages and modules, bottom up:

* ``format``: pure codecs of the log, the pages and the container files.
* ``database``: what a Derby database directory holds; control files; who has it open.
* ``log``: the forward and the backward scan, the end of the log, and the writer.
* ``pages``: live pages, the containers that hold them, and the page cache.
* ``apply``: the three verbs of a loggable operation: do, undo, compensate.
* ``xact``, ``checkpoint``, ``recovery``: the transaction table, the closing checkpoint, redo and undo.
* ``info``, ``verify``: what an operator wants to know before recovery is run.

Rules are cited by their numbers in derby-behaviour.md (R-DRB-1 to R-DRB-73). Nothing here knows JE: the package imports
``engine.storage``, ``engine.errors`` and ``engine.events`` only.
"""
