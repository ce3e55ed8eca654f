"""Entry bodies, one module per family. Each record is a named tuple with its fields in on-disk order.

Modules:

* ``checkpoint``: ckptStart (19) and CkptEnd (20), je-log-format.md 6.4 and 6.5
* ``db_tree``: dbTree (16), the root of the environment, and DatabaseImpl, the state of one database
* ``early``: bodies of log versions 1 to 5, translated to the layout of version 6
* ``file_header``: fileHeader (25): the first entry of every log file
* ``group_db``: values of the replication group's database, ``_jeRepGroupDB``
* ``internal_db``: values of JE's internal databases
* ``legacy``: entries that occur only in old logs: BINDelta (22), DupBINDelta (23), INDelete (21), INDupDelete (26)
* ``ln``: leaf entries: every LN type of every version
* ``ln_content``: the content of LNs of internal trees, after the LN base, and the fields at the end of some LN entries
* ``markers``: entries that mark a state of the log: ImmutableFile (38), RestoreRequired (39), Erased (43)
* ``node``: tree nodes: IN (12), BIN (13), DIN (14), DBIN (15) and NewBINDelta (37), je-log-format.md 8
* ``rollback``: rollbackStart (28), RollbackEnd (29) and Matchpoint (30), je-log-format.md 6.8 and 6.9
* ``trace``: trace (24)
* ``txn_end``: commit (17), Abort (18) and Prepare (27), je-log-format.md 6.6 and 6.7
"""
