"""The cleaner and what it goes by: utilization, expiration, the way of a file from live to deleted (R-CLN-1 to 53).

Modules:

* ``cleaner``: the cleaner: chooses files, cleans them, and lets them go at checkpoints
* ``offline``: cleaning as much as is worth it while no other process has the environment open
* ``selection``: which file is cleaned next
* ``file_processor``: cleaning one file: whatever the trees still need of it is logged again
* ``file_report``: what was found in one file, and what its summary should say then
* ``migration_candidates``: the entries of a file that may have to be migrated
* ``migration``: writing a record again, as it is, because its file is to go
* ``file_states``: where each file stands on its way from the live log to its deletion
* ``deletion``: from reserved to deleted, and who needs which reserved files
* ``disk_limits``: how much room the log may take
* ``file_records``: what internal databases say of single files: summaries, expiration, reserved files
* ``expiration``: the expiration profile: how many bytes of each finished file expire when
* ``file_summary``: counters of one log file
* ``tracker``: utilization tracking: what every entry adds to its file, and what it makes obsolete

The way of a file, and what makes it safe to delete it:

1. It is chosen by its counters, which need not be right: a wrong choice costs work, never a record.
2. It is read to its end. A record to which a slot leads is logged again; a node that is in use becomes dirty. What a
   transaction has locked is noted as pending. From then on the file is CLEANED: nothing is needed of it but pending
   LNs, and versions of nodes that are dirty now.
3. A checkpoint that begins when nothing in it is pending logs all these nodes, one level more than it would otherwise
   (R-CKPT-15). When its CkptEnd is durable no recovery begins before it, and nothing that it reads leads into the file.
4. Now it is reserved, which a record says, and is no part of the live log: it is counted and cleaned no more.
5. It is deleted: no protection holds it, no process reads, and, in a replication group, the VLSN index begins after it.

Whatever fails, or crashes, before 3 is done leaves the file in the live log, where it is cleaned again: what has been
logged again is dead there (R-CLN-45).

Databases that are removed need no state of their own: their removal counts what they held and takes their MapLN away in
one step, under the latch. What a JE has left half removed is finished when the environment is opened
(``engine.db.extinction``).
"""
