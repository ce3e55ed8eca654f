"""Utilization of log files, as far as a checkpoint persists it (R-CLN-1 to R-CLN-13).

Modules:

* ``expiration``: the expiration profile: how many bytes of each finished file expire when
* ``file_summary``: counters of one log file
* ``tracker``: utilization tracking: what every entry adds to its file, and what it makes obsolete
"""
