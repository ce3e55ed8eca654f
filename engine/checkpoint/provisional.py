"""The provisional flag of a node that the checkpointer logs (R-CKPT-23).

Level at or above the highest flush level of its database: NO. Below: YES for a bottom node, else BEFORE_CKPT_END. So
recovery never replays a node that may depend on a file that the checkpoint lets go (R-CKPT-53).
"""

from __future__ import annotations

from engine.format.entry.node import LEVEL_MASK
from engine.format.header import Provisional


def checkpoint_provisional(level: int, highest_level: int) -> Provisional:
    """The flag.

    Arguments:
        level: stored level of the node.
        highest_level: highest flush level of its database.
    """
    if level >= highest_level:
        return Provisional.NO
    return Provisional.YES if level & LEVEL_MASK == 1 else Provisional.BEFORE_CKPT_END
