"""Checks that collect findings with stable codes instead of stopping at the first.

Modules:

* ``collector``: findings as they come in, bounded
* ``environment``: checking an environment on all levels that were asked for, in one report
* ``log``: checking the log itself: every entry of every file, and how the files hang together
* ``log_rules``: the rules that ``verify --log --tail`` checks
* ``missing_file_refs``: references of the trees into missing log files
* ``missing_files``: files that are missing and lost, as the end of the log shows it
* ``obsolete``: which offsets of each log file are on record as obsolete: all offset lists of its FileSummaryLNs
* ``record_rules``: the rules that ``verify --refs`` (JE-REF), ``--data`` (JE-DATA) and ``--secondary`` (JE-SEC) check
* ``records``: checking what the slots of bottom nodes lead to
* ``rep``: the replicated side of an environment, checked against its log: index, stream, group
* ``rep_rules``: the rules that ``verify --rep`` and ``vlsn check`` check
* ``repairs``: is a repair unfinished? Then the log on disk is neither the one before it nor the one after it
* ``report``: findings: what is wrong, with a code that stays the same, and what to do about it
* ``rollbacks``: rollback periods and the INVISIBLE bit, which no checksum covers
* ``secondary``: a secondary against its primary, without the key creator of the application
* ``space``: checking utilization: the FileSummaryLN of each log file against the file and against the trees
* ``space_rules``: the rules that ``verify --space`` checks
* ``stream_gaps``: VLSNs that are missing in the log, from what the bulk check has counted of each file
* ``tree``: walking over one tree and checking its structure
* ``tree_rules``: the rules that ``verify --tree`` checks
* ``tree_stats``: counts of the tree of every database: what JE's DbStat prints, for all databases in one walk
* ``trees``: checking trees, references, data and utilization
* ``walk``: walking over the trees of an environment that may be damaged
"""
