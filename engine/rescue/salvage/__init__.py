"""The newest committed version of every record of damaged environments, from their logs.

* ``scan``: every version of every record that a log still holds, and what the tree says of it
* ``sorting``: rows in order, with memory bounded by files of sorted runs
* ``verdict``: which version of a record counts, in one log and in those of several nodes
* ``sources``: which logs belong together, and what the records of their databases are
* ``collect``: salvage: records in order, and what is lost or in doubt
* ``target``: a new environment with the records
"""
