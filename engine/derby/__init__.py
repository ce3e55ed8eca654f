"""The page store after Apache Derby: ARIES logging and recovery on Derby's own files.

Packages and modules, bottom up:

* ``format``: pure codecs of the log, the pages and the container files.
* ``database``: what a Derby database directory holds; control files; who has it open.
* ``log``, ``log_tail``, ``log_walk``: the scans, the end of the log, what follows it; ``log_writer`` appends to it.
* ``pages``, ``containers``, ``cache``: live pages, the files that hold them, and the page cache.
* ``page_actions``, ``loggable``: the three verbs of a loggable operation: do, undo, compensate.
* ``xact_table``, ``recovery``, ``checkpoint``: the passes of recovery and its closing checkpoint.
* ``database_info``, ``verify``, ``explain``: what an operator wants to know before recovery is run.
* ``store``: a page store of our own on the same files.

Rules are cited by their numbers in derby-behaviour.md (R-DRB-1 to R-DRB-78). Nothing here knows JE: the package imports
``engine.storage``, ``engine.errors`` and ``engine.events`` only.

Also here:

* ``catalog``: the one table of the SQL catalogue that a check needs
* ``crash_drill``: simulated crashes of Derby databases and page stores
* ``interlock``: the interlock: where recovery must not simply go on
* ``page_copies``: copies of pages that are about to be written, so that a torn page write loses nothing
* ``page_versions``: what the log says of the versions of pages, and where it says nothing
* ``presence``: which containers recovery needs, and which of them have no file
* ``service_properties``: ``service.properties``, and what Derby needs in there to start a database
* ``textbook``: the page-LSN variant of textbook ARIES, beside Derby's, and what it would do with the records of the
  same log
* ``timeline``: transactions beside the last checkpoint and the end of the log
* ``xact_fates``: the fate of every transaction in the log
"""
