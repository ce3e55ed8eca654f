"""Backups of environments: storing, taking, checking and restoring them.

* ``manifest``: the manifest of one backup: its files with sizes, SHA-256, LSNs and VLSNs
* ``repository``: a directory of backups: log files stored once, and a manifest for each backup
* ``view``: a backup seen as the environment that it is a copy of
* ``log_facts``: facts about the files of a copy: first and last entries, VLSNs, the end of the log
* ``manifest_builder``: the manifest of a copy
* ``backup_run``: takes a backup of an environment, closed or in use
* ``check``: tests checksums and entries, and recovers the copy in memory
* ``je_snapshot``: snapshots in an archive of JE's automatic backups, checked against their manifests
* ``file_filter``: checks the bytes of a log file while another program copies it
* ``follower``: repeated backups as a log grows
* ``retention``: which backups are kept, and removal of the others
* ``point_lookup``: the backup from which a point is restored
* ``restore``: restores an environment, in full or as it was at a point
"""
