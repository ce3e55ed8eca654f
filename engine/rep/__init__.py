"""Replication groups: membership, feeder and replica, syncup, rollback, network restore, elections.

Above ``engine.db``: it opens environments, leads or follows, and moves entries of the stream between nodes. Imported by
the command line only.
"""
