"""Checks that collect findings with stable codes instead of stopping at the first problem.

Modules:

* ``collector``: collecting a bounded number of findings
* ``damage_rules``: the rule that a stretch of damage breaks
* ``environment``: checking an environment on all requested levels, in one report
* ``log``: checking the log itself: every entry of every file, and the links between files
* ``log_rules``: the rules that ``verify --log --end`` checks
* ``missing_file_refs``: references of the trees into missing log files
* ``missing_files``: missing files that are lost, judged by the end of the log
* ``obsolete``: the offsets of each log file that are recorded as obsolete: all offset lists of its FileSummaryLNs
* ``part``: checking some log files, or one database
* ``record_rules``: the rules that ``verify --refs`` (JE-REF), ``--data`` (JE-DATA) and ``--secondary`` (JE-SEC) check
* ``records``: checking the records that slots of bottom nodes refer to
* ``rep``: the replicated side of an environment, checked against its log: index, stream, group
* ``rep_rules``: the rules that ``verify --rep`` and ``vlsn check`` check
* ``repairs``: detecting an unfinished repair, which leaves the log between its old and its new state
* ``report``: findings: problems with stable codes, and what to do about them
* ``rollbacks``: rollback periods and the INVISIBLE bit, which no checksum covers
* ``secondary``: a secondary against its primary, without the key creator of the application
* ``space``: checking utilization: the FileSummaryLN of each log file against the file and against the trees
* ``space_rules``: the rules that ``verify --space`` checks
* ``stream_gaps``: VLSNs that are missing in the log, from the counts of the bulk check of each file
* ``tree``: walking over one tree and checking its structure
* ``tree_rules``: the rules that ``verify --tree`` checks
* ``tree_stats``: counts of the tree of every database: what JE's DbStat prints, for all databases in one walk
* ``trees``: checking trees, references, data and utilization
* ``walk``: walking over the trees of an environment that may be damaged
"""
