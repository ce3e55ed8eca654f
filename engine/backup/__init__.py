"""Backups of environments: directories of backups, taking them, checking them, making environments of them.

* ``manifest``: the manifest of one backup: its files with sizes, SHA-256, LSNs and VLSNs
* ``repository``: a directory of backups: log files stored once, and a manifest for each backup
* ``view``: a backup seen as the environment that it is a copy of
* ``log_facts``: what the files of a copy hold: first and last entries, VLSNs, where the log ends
* ``manifest_builder``: the manifest of a copy
* ``backup_run``: a backup of an environment, at rest or in use
* ``check``: sums, entries, recovery of the copy in memory
* ``follower``: backups again and again, as a log grows
* ``retention``: which backups are kept, and removing the others
* ``point_lookup``: which backup a point is restored from
* ``restore``: an environment made of a backup, whole or as it was at a point
"""
