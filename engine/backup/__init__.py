"""Backups of environments: directories of backups, taking them, checking them, making environments of them.

* ``manifest``: the manifest of one backup: its files with sizes, SHA-256, LSNs and VLSNs
* ``repository``: a directory of backups: log files stored once, and a manifest for each backup
* ``view``: a backup seen as the environment that it is a copy of
* ``log_facts``: what the files of a copy hold: first and last entries, VLSNs, where the log ends
* ``describing``: the manifest of a copy
* ``taking``: a backup of an environment, at rest or in use
* ``checking``: sums, entries, recovery of the copy in memory
* ``following``: backups again and again, as a log grows
* ``retention``: which backups are kept, and removing the others
* ``choosing``: which backup a point is restored from
* ``restoring``: an environment made of a backup, whole or as it was at a point
"""
