"""Backups of environments: what a directory of backups holds.

* ``manifest``: the manifest of one backup: its files with sizes, SHA-256, LSNs and VLSNs
* ``repository``: a directory of backups: log files stored once, and a manifest for each backup
"""
