"""Checkpoints (R-CKPT-1 to R-CKPT-55).

Modules:

* ``checkpointer``: the checkpoint: ten steps that bound recovery, and what takes part in it from above
* ``dirty_map``: the dirty map: which nodes a checkpoint has to log, and how high
"""
