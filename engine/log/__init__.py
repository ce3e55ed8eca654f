"""Log files of an environment: listing, readers in both directions, end of log, resynchronisation past damage.

Modules:

* ``access``: entries by LSN: random reads for trees, transaction chains and undo
* ``check``: checking one log file in bulk
* ``damage``: judging damage: the torn tail that every crash leaves, or something lost
* ``entry``: what a pass over a log yields: entries, and stretches of damage between them
* ``file_version``: the log version of a file whose header says nothing: that of a file beside it
* ``files``: the files of an environment directory
* ``group_commit``: group commit: one fsync for everybody who asked while the one before was under way
* ``log_reader``: reading a whole log, forward and backward, over all of its files
* ``marker``: the restore marker: a file that says that an environment must not be opened
* ``passes``: forward and backward passes over a stretch of the log, for recovery
* ``reader``: reading one log file forward: every entry, and every stretch that is not one
* ``resync``: finding the next good entry after damage
* ``tail``: finding the end of the log and what stands near it
* ``window``: a sliding buffer over one file, so that memory does not grow with the file
* ``writer``: writing the log
"""
