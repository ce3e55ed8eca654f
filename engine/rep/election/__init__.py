"""Elections of a master, by Raft.

Terms, votes and the leader of a term come from pysyncobj, and only those: it never sees an entry of the stream, keeps
no file, and nothing that it would pickle travels. What travels are the small messages of ``messages``, over the
authenticated connections between nodes.

* ``ballot``: what must survive a crash. ``rank``: who may stand, and who gets a vote.
* ``messages``, ``links``: what voters say, and the connections. ``raft``: the library, and the library only.
* ``elections``: the part that a node has (``engine.rep.voting.Election``).

Example, three nodes: n1 is master of term 4 and dies. n2 and n3 miss its beats for an election timeout. n3 has VLSN
120, n2 118: n3 drops its stream from n1, notes its vote for itself in term 5, asks. n2 drops its stream, finds (4, 120)
not below its own (4, 118), notes its vote, answers. n3 has 2 of 3 votes, notes that term 5 begins at 121, and logs
Matchpoint 121.
"""
