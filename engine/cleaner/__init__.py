"""The cleaner and its data: utilization, expiration, and the steps of a file from live to deleted (R-CLN-1 to 53).

Modules:

* ``cleaner``: the cleaner: chooses files, cleans them, and releases them at checkpoints
* ``offline``: cleaning as much as is worthwhile while no other process has the environment open
* ``selection``: the choice of the next file to clean
* ``file_processor``: cleaning one file: everything that the trees still need is logged again
* ``file_report``: the result of cleaning one file, and the file's new summary
* ``migration_candidates``: the entries of a file that may have to be migrated
* ``migration``: logging a record again, unchanged, because its file will be deleted
* ``file_states``: the state of each file between the live log and its deletion
* ``deletion``: deleting reserved files, and protecting those that are still needed
* ``disk_limits``: limits on the disk space of the log
* ``file_records``: the records of internal databases about single files: summaries, expiration, reserved files
* ``expiration``: the expiration profile: when the bytes of each finished file expire
* ``file_summary``: counters of one log file
* ``tracker``: utilization tracking: what every entry adds to its file, and what it makes obsolete

The steps of a file, and why it is safe to delete it:

1. The file is chosen by its counters, which need not be exact: a wrong choice costs work, never a record.
2. It is read to its end. A record to which a slot leads is logged again; a node in use becomes dirty. A locked record
   is noted as pending. From then on the file is CLEANED: it is needed only for pending LNs, and for versions of nodes
   that are dirty now.
3. A checkpoint that begins when no record of the file is pending logs all these nodes, one level more than usual
   (R-CKPT-15). Once its CkptEnd is durable, no recovery begins before it, and nothing that recovery reads leads into
   the file.
4. Now the file is reserved, and a record in ``_jeReservedFilesDb`` marks it as reserved. It no longer belongs to the
   live log, and is not counted or cleaned any more.
5. It is deleted when no protection holds it, no process reads, and, in a replication group, the VLSN index begins after
   it.

Any failure or crash before step 3 is complete leaves the file in the live log, where it is cleaned again: the records
that were already logged again are dead in it (R-CLN-45).

Removed databases need no separate state: their removal counts their contents as obsolete and deletes their MapLN in one
step, under the latch. Removals that JE has left unfinished are completed when the environment is opened
(``engine.db.extinction``).
"""
