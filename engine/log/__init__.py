"""Log files of an environment: listing, readers in both directions, end of log, resynchronisation past damage.

Modules:

* ``access``: entries by LSN: random reads for trees, transaction chains and undo
* ``check``: checking one log file in bulk
* ``damage``: judging damage: a torn tail, as every crash leaves it, or lost data
* ``entry``: what a pass over a log yields: entries, and stretches of damage between them
* ``files``: the files of an environment directory, and their log versions
* ``group_commit``: group commit: one fsync serves all callers that asked while the previous one was running
* ``interleaved``: did two processes write one log file?
* ``latch``: re-entrant locks that report changes interrupted half way
* ``marker``: the restore marker: a file that forbids opening the environment
* ``passes``: forward and backward passes over a stretch of the log, for recovery
* ``reader``: reading one log file forward: entries, and stretches of damage
* ``scan``: a pass over a log, declared as a value: files, range, types, direction, processes
* ``tail``: finding the end of the log, and the last checkpoint
* ``window``: looking into one log file: a buffer over it, the entry at an offset, the next good entry after a bad one
* ``writer``: writing the log
"""
