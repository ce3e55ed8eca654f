"""Log files of an environment: listing, readers in both directions, end of log, resynchronisation past damage.

Modules:

* ``access``: entries by LSN: random reads for trees, transaction chains and undo
* ``check``: checking one log file in bulk
* ``damage``: judging damage: the torn tail that every crash leaves, or something lost
* ``entry``: what a pass over a log yields: entries, and stretches of damage between them
* ``files``: the files of an environment directory, and their log versions
* ``group_commit``: group commit: one fsync for everybody who asked while the one before was under way
* ``interleaved``: did two processes write one log file?
* ``latch``: re-entrant locks that report changes which ended half way
* ``marker``: the restore marker: a file that says that an environment must not be opened
* ``passes``: forward and backward passes over a stretch of the log, for recovery
* ``reader``: reading one log file forward: entries, and every stretch that is no entry
* ``scan``: a pass over a log, declared as a value: files, range, types, direction, processes
* ``tail``: finding the end of the log and what stands near it
* ``window``: looking into one log file: a buffer over it, what stands at an offset, the next good entry after a bad one
* ``writer``: writing the log
"""
