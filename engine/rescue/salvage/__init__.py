"""The newest committed version of every record of damaged environments, from their logs.

* ``sources``: which logs belong together, and what the records of their databases are
* ``streams``: which logs hold the same replication stream
* ``databases``: names of databases, and which of them were removed or are JE's own
* ``scan``: what is few in a log, and the versions of one entry
* ``trees``: the trees as the last legible checkpoint left them, with the branches that are gone
* ``tree_survey``: what the trees say of records, at the last whole checkpoint and now
* ``old_duplicates``: duplicates of log versions 6 and 7
* ``coverage``: what a damaged log does not show
* ``versions``: what one log holds of one record
* ``version_reader``: versions out of stretches of intact entries, by the million
* ``sorted_versions``: versions by database and key, with memory bounded by files of sorted runs
* ``verdict``: which version of a record counts, in one log and in those of several nodes
* ``extinct``: ranges of records that an application has discarded at one go
* ``record_choice``: one record after the other: what counts, what is lost, what is in doubt
* ``results``: records, and what is to be said of them
* ``collect``: salvage: records in order
* ``meanings``: how these records are decoded, also where nothing can be recovered
* ``target``: a new environment with the records
"""
