"""Recovery: from the last checkpoint and the log after it to the tree as of the last commit.

``rollback_tracker`` finds the stretches of log that a replica has rolled back, ``txn_chain`` what each rolled-back
record returns to. Rules R-RB-1 to 44 of je-behaviour.md. Recovery imports transactions, the tree, the log and what is
below them; what it needs of other packages it asks through protocols of its own.

Also here:

* ``analysis``: the first walk of recovery over its range of the log
* ``hooks``: what listens to recovery from above: utilization counting, VLSN tracking
* ``legacy_dups``: duplicates of log versions 6 and 7, brought into the form of later versions
* ``manager``: recovery, pass by pass
* ``node_replay``: replaying INs
* ``redo_batch``: records that wait for redo: batches, and sorted runs
* ``redo_pass``: redo of LNs
* ``result``: what recovery knows and what it reports
* ``undo_pass``: undo of LNs
"""
