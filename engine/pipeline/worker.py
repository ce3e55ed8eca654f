"""What a Python worker of Spark does once, before its first task."""

from __future__ import annotations

import gc

_settled = False


def settle_worker() -> None:
    """Tell the collector that what is loaded stays: the worker loop collects after every task, 40 ms each time."""
    global _settled
    if not _settled:
        gc.collect()
        gc.freeze()
        _settled = True
