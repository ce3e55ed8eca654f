"""Recovery: from the last checkpoint and the log after it to the tree as of the last commit.

``rollback_tracker`` finds the stretches of log that a replica has rolled back, ``txn_chain`` what each rolled-back
record returns to. Rules R-RB-1 to 44 of je-behaviour.md. Recovery imports transactions, the tree, the log and what is
below them; what it needs of other packages it asks through protocols of its own.
"""
