"""Replication groups: membership, JE's protocol, syncup, rollback, network restore, elections.

Above ``engine.db``: it opens environments, leads or follows, and moves entries of the stream between nodes. Imported by
the command line only.

Modules:

* ``acks``: acknowledgements
* ``changes``: what changes in a running group of JE, transaction by transaction
* ``client``: clients of real nodes of JE: looking at groups, copies
* ``group``: the members of a replication group, kept in the replicated database ``_jeRepGroupDB``
* ``member``: a node that follows the master of a group of JE
* ``master``: the master of a group of JE
* ``outflow``: what a feeder sends next
* ``peers``: errors of a node that is talked to, and how its address is written
* ``records``: records that are read and written through a running node, which has its environment locked
* ``remote``: the operator's side of ``engine.rep.records``: one request to a running node, and what came of it
* ``replay``: replay: what the master has logged is done again on a replica, entry by entry
* ``reset``: a new group around one node: what JE's DbResetRepGroup does
* ``restore``: network restore: a node's log files replaced by copies of the master's
* ``rollback``: rollback of a running replica to a matchpoint
* ``service_port``: an address that is listened at
* ``services``: what a node answers to other nodes of a group of JE, and to their tools
* ``status``: what a node is at a moment, and what it says of itself
* ``stream``: entries of the replication stream: their form on the way, and reading them from a log by VLSN
* ``syncup``: syncup: where replica and master agree, and what the replica does to get there
* ``wire``: what nodes of JE send each other, as pure codecs
"""
