"""Whether the Python packages that a job needs are there."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from engine.errors import UnsupportedError
from engine.pipeline import java


def require(*names: str) -> None:
    """Refuse to begin without the packages.

    Raises:
        UnsupportedError: one is missing; names the pip command that installs all.
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
    """Whether all of the packages are there."""
    return all(map(_is_there, names))


def _is_there(name: str) -> bool:
    if name in sys.modules:
        return sys.modules[name] is not None
    return find_spec(name) is not None
