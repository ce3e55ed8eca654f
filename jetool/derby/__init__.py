"""Derby databases and page stores on the command line.

``verbs`` is what ``jetool.app.command`` calls for a Derby database; each verb loads its own module here, so that runs
on JE environments pay for none of them. What they print stands in the modules ``*_rows``.

Also here:

* ``log_statistics``: ``dump-log --stats`` on a Derby database
* ``crash``: ``crash`` on Derby databases and page stores
* ``crash_rows``: crashes of Derby databases, and cases of their crash matrix
* ``dump_log``: ``dump-log`` on a Derby database
* ``ends``: where the log of a Derby database starts and ends for recovery, and what readers say about it
* ``explain_rows``: what Derby's recovery, and what textbook ARIES, would do with each record of a log
* ``info``: ``info`` on a Derby database
* ``info_rows``: the state of a Derby database, for ``jetool info``
* ``database_lock``: the lock of a Derby database, which a JVM takes too
* ``log_rows``: records of a Derby log as rows for JSON, NDJSON and CSV
* ``log_text``: records of a Derby log as lines of text
* ``operations``: Derby's operations as ``dump-log --type`` names them: one by one, or by group
* ``record_rows``: what the verbs of records print of a page store
* ``recover``: ``recover``, ``checkpoint`` and ``undo`` on Derby databases
* ``recover_rows``: what recovery of a Derby database did, or would do
* ``saved_bytes``: where the old bytes of a Derby database go before they are changed
* ``log_selection``: the options of ``dump-log`` for a Derby database: which of them there are, and what they select
* ``store``: the verbs of records on a page store of our own: create, put, get, delete, scan, dump, load, dbs
* ``timeline_rows``: transactions beside the last checkpoint and the crash: a drawing, and a row for JSON
* ``txns``: ``txns`` on a Derby database
* ``verify``: ``verify`` on a Derby database: the engine's findings through the command's output
"""
