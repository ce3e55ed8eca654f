"""The page store after Apache Derby: ARIES logging and recovery on Derby's own files.

Packages and modules, bottom up:

* ``format``: pure codecs of the log, the pages and the container files.
* ``database``: the files of a Derby database directory, the control files, and the process that has it open.
* ``log``, ``log_tail``, ``log_walk``: the scans, the end of the log, and the bytes after it; ``log_writer`` appends to
  it.
* ``pages``, ``containers``, ``cache``: live pages, the files that hold them, and the page cache.
* ``page_actions``, ``loggable``: the three verbs of a loggable operation: do, undo, compensate.
* ``xact_table``, ``recovery``, ``checkpoint``: the passes of recovery and its closing checkpoint.
* ``database_info``, ``verify``, ``explain``: reports for an operator before recovery is run.
* ``sql``: the tables of a database with an SQL catalogue, and their rows.
* ``store``: jetool's own page store on the same files.

Rules are cited by their numbers in derby-behaviour.md (R-DRB-1 to R-DRB-79). The package does not depend on JE: it
imports
``engine.storage``, ``engine.errors`` and ``engine.events`` only.

Also here:

* ``catalog``: the one table of the SQL catalogue that a check needs
* ``crash_drill``: simulated crashes of Derby databases and page stores
* ``interlock``: the conditions under which recovery is refused
* ``page_copies``: copies of pages that are about to be written, so that a torn page write loses nothing
* ``page_versions``: the versions of pages according to the log, and the pages for which it gives none
* ``presence``: which containers recovery needs, and which of them have no file
* ``service_properties``: ``service.properties``, and the entries that Derby needs to start a database
* ``textbook``: the page-LSN variant of textbook ARIES compared with Derby's, on the records of the same log
* ``timeline``: transactions relative to the last checkpoint and the end of the log
* ``xact_fates``: the fate of every transaction in the log
"""
