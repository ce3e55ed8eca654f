"""Python under Spark: the packages that a job needs, and the setup of a worker before its first task."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

from engine.errors import JetoolError, UnsupportedError
from engine.pipeline import java

# Between the sentence of an error and its next command, in one line.
NEXT: Final = "; next: "
# With this variable Spark prints an exception of a worker without its traceback.
_NO_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"
_settled = False
# What a load without Spark needs for column formats, and to read text fast; the extra ``parquet`` installs them.
COLUMN_PACKAGES: Final = ("pyarrow", "numpy")
INSTALL_COLUMN_PACKAGES: Final = "pip install 'pyarrow>=18' numpy"


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


def require_columns(what: str) -> None:
    """Raise an error if a package for the reading of columns is missing.

    Arguments:
        what: what needs it, such as "a Parquet source".

    Raises:
        UnsupportedError: a package is missing.
    """
    missing = missing_columns()
    if missing:
        raise UnsupportedError(
            f"{what} needs {missing}", consequence="nothing was read or changed", hint=INSTALL_COLUMN_PACKAGES
        )


def missing_columns() -> str:
    """A clause that names the missing packages of ``COLUMN_PACKAGES``; empty if all are installed."""
    missing = [name for name in COLUMN_PACKAGES if not _is_there(name)]
    if not missing:
        return ""
    return f"{' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"


def has(*names: str) -> bool:
    """Whether all of the packages are installed."""
    return all(map(_is_there, names))


def _is_there(name: str) -> bool:
    if name in sys.modules:
        return sys.modules[name] is not None
    return find_spec(name) is not None


@contextmanager
def plain_errors() -> Iterator[None]:
    """Make errors of jetool plain for Spark's user: one line with the next command, without a traceback.

    Spark prints the traceback of every exception of a worker, and the worker then ends. Exceptions of other kinds are
    bugs, and keep their traceback. For use in code that Spark calls; elsewhere the error is unchanged.
    """
    try:
        yield
    except JetoolError as error:
        if _is_worker():
            os.environ[_NO_TRACEBACK] = "1"
            told = str(error) + (f"{NEXT}{error.hint}" if error.hint else "")
            error.what = " ".join(told.split())
            error.file = error.lsn = error.expected = error.found = error.consequence = error.hint = None
        raise


def _is_worker() -> bool:
    """Whether this process is a Python worker of Spark: it runs a module of pyspark."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")


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
