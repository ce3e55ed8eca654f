"""The newest committed version of every record of damaged environments, from their logs.

* ``sources``: which logs belong together, and which of them recovery can read completely
* ``streams``: which logs hold the same replication stream
* ``databases``: names of databases; removed databases, and JE's own
* ``scan``: the survey of a log, and the versions in one entry
* ``trees``: the trees at the last legible checkpoint, with the lost branches
* ``tree_survey``: records according to the trees, at the last whole checkpoint and now
* ``old_duplicates``: duplicates of log versions 6 and 7
* ``coverage``: the gaps of a damaged log
* ``versions``: the versions of a record in one log
* ``version_reader``: bulk reading of versions from intact entries
* ``sorted_versions``: versions sorted by database and key, with bounded memory and files of sorted runs
* ``verdict``: the version of a record that counts, in one log and across several nodes
* ``extinct``: ranges of records that an application has discarded at once
* ``record_choice``: judges records one by one: the version that counts, losses, and doubts
* ``broken_commits``: committed transactions with a record in damaged bytes
* ``results``: records and findings
* ``collect``: runs a salvage and yields its records in order
* ``meanings``: decoding of these records, even if nothing can be recovered
* ``target``: a new environment with the records
"""
