"""Python under Spark: the packages that a job needs, and the setup of a worker before its first task."""

from __future__ import annotations

import gc
import sys
from importlib.util import find_spec

from engine.errors import UnsupportedError
from engine.pipeline import java

_settled = False


def require(*names: str) -> None:
    """Raise an error if a package is missing.

    Raises:
        UnsupportedError: a package is missing; the hint is the pip command that installs all.
    """
    missing = [name for name in names if not _is_there(name)]
    if missing:
        many = len(missing) > 1
        raise UnsupportedError(
            f"this needs Spark, and the Python package{'s' * many} {', '.join(missing)} "
            f"{'are' if many else 'is'} not installed",
            consequence="nothing was read or changed",
            hint=java.pip_command(),
        )


def has(*names: str) -> bool:
    """Whether all of the packages are installed."""
    return all(map(_is_there, names))


def _is_there(name: str) -> bool:
    if name in sys.modules:
        return sys.modules[name] is not None
    return find_spec(name) is not None


def settle_worker() -> None:
    """Exclude loaded objects from garbage collection: the worker loop collects after every task, 40 ms each time."""
    global _settled
    if not _settled:
        gc.collect()
        gc.freeze()
        _settled = True


def settle_arrow() -> None:
    """Make Arrow use the system's allocator: its own pool keeps a hundred megabytes that were needed once."""
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())


def release_arrow() -> None:
    """Return freed memory to the system, between two steps that use much of it."""
    import pyarrow as pa

    pa.system_memory_pool().release_unused()
