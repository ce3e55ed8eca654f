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


def settle_arrow() -> None:
    """Let Arrow take memory from the system: its own pool keeps a hundred megabytes that were needed once."""
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())


def release_arrow() -> None:
    """Give back to the system what was freed: between two steps that hold much."""
    import pyarrow as pa

    pa.system_memory_pool().release_unused()
