"""Checkpoints (R-CKPT-1 to R-CKPT-55).

Modules:

* ``checkpointer``: the checkpoint: ten steps that bound recovery, and the protocol of its participants
* ``dirty_map``: the dirty map: the nodes that a checkpoint has to log, and the highest level that it flushes
"""
