"""Recovery: rebuilds the trees as of the last commit from the last checkpoint and the log after it.

``rollback_tracker`` finds the parts of the log that a replica has rolled back; ``engine.txn.chain`` gives the version
to which each rolled-back record returns. Rules R-RB-1 to 44 of je-behaviour.md. Recovery imports transactions, the
tree, the log and lower packages; it calls other packages through its own protocols.

Also here:

* ``analysis``: the first walk of recovery over its part of the log
* ``hooks``: protocols of listeners above recovery: utilization counting, VLSN tracking
* ``legacy_dups``: converting duplicates of log versions 6 and 7 to the form of later versions
* ``manager``: recovery, pass by pass
* ``node_replay``: replaying INs
* ``redo_batch``: records that wait for redo: batches, and sorted runs
* ``redo_pass``: redo of LNs
* ``result``: state and result of recovery
* ``undo_pass``: undo of LNs
"""
