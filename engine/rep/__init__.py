"""Replication groups: membership, JE's protocol, syncup, rollback, network restore, elections.

Above ``engine.db``: it opens environments, leads or follows, and moves entries of the stream between nodes. Only the
command line imports it.

Modules:

* ``acks``: acknowledgements
* ``arbiter``: a member without a log, which votes and acknowledges
* ``arbiter_acks``: the acknowledgements of an arbiter, as the master of its group sees them
* ``changes``: the changes in a running group of JE, by transaction
* ``client``: clients of real nodes of JE: inspecting groups, copying nodes
* ``group``: the members of a replication group, kept in the replicated database ``_jeRepGroupDB``
* ``intervals``: the pauses and patience of a node
* ``member``: a node that follows the master of a group of JE
* ``master``: the master of a group of JE
* ``membership``: asks the master of a group to remove, delete or move a member
* ``node_diff``: compares the records of an environment with those of a running node
* ``outflow``: the next entries that a feeder sends
* ``peers``: errors of other nodes, and the text form of an address
* ``records``: reads and writes of records through a running node, which has its environment locked
* ``remote``: the client of ``engine.rep.records``: one request to a running node, and its result
* ``replay``: replay: applies the master's entries to a replica
* ``reset``: makes one node a new group, as JE's DbResetRepGroup does
* ``restore``: network restore: a node's log files replaced by copies of the master's
* ``rollback``: rollback of a running replica to a matchpoint
* ``service_port``: the listening socket of a node
* ``services``: the services of a node for other nodes of a group of JE, and for their tools
* ``status``: the state of a node at a moment
* ``stream``: entries of the replication stream: their transport form, and reading them from a log by VLSN
* ``syncup``: syncup: where replica and master agree, and how the replica gets back to that place
* ``wire``: the messages between nodes of JE, as pure codecs
"""
