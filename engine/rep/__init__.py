"""Replication groups: membership, feeder and replica, syncup, rollback, network restore, elections.

Above ``engine.db``: it opens environments, leads or follows, and moves entries of the stream between nodes. Imported by
the command line only.

Modules:

* ``acks``: acknowledgements
* ``changes``: what changes in a running group of JE, transaction by transaction
* ``client``: clients of real nodes of JE: looking at groups, copies
* ``election``: elections of a master, by Raft
* ``feeder``: the master's side of one replica: syncup, the stream, acknowledgements, files
* ``frames``: frames between two nodes of jetool
* ``group``: the members of a replication group, kept in the replicated database ``_jeRepGroupDB``
* ``handshake``: how two nodes come to trust each other before anything else is said
* ``joined``: a node that follows the master of a group of JE
* ``leading``: the master of a group of JE
* ``mastership``: one term of a master: the gate of its commits, and the replicas that it feeds
* ``messages``: what two nodes say after the handshake
* ``node``: a node of a replication group: one environment, one address, one role at a time
* ``operator``: questions and requests of an operator to running nodes
* ``outflow``: what a feeder sends next
* ``records``: records that are read and written through a running node, which has its environment locked
* ``remote``: the operator's side of ``engine.rep.records``: one request to a running node, and what came of it
* ``replay``: replay: what the master has logged is done again on a replica, entry by entry
* ``replica``: the replica's side of its master: syncup, rollback or restore, then the stream
* ``reset``: a new group around one node: what JE's DbResetRepGroup does
* ``restore``: network restore: a node's log files replaced by copies of the master's
* ``rollback``: rollback of a running replica to a matchpoint
* ``service_dispatcher``: where a node is called
* ``service_port``: an address that is listened at
* ``serving``: what a node answers to other nodes of a group of JE, and to their tools
* ``settings``: how a node takes part in its group
* ``stream``: entries of the replication stream: their form on the way, and reading them from a log by VLSN
* ``syncup``: syncup: where replica and master agree, and what the replica does to get there
* ``terms``: terms of masters, and where in the stream each began
* ``voting``: what a node and the election of its master ask of each other
* ``wire``: what nodes of JE send each other, as pure codecs
"""
