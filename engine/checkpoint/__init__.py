"""Checkpoints (R-CKPT-1 to R-CKPT-55).

Modules:

* ``checkpointer``: the checkpoint: ten steps that bound recovery
* ``dirty_map``: the dirty map: which nodes a checkpoint has to log, and how high
* ``participants``: what takes part in a checkpoint from above: cleaner, VLSN index, utilization
* ``provisional``: the provisional flag of a node that the checkpointer logs
"""
