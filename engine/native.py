"""Is a part of the native build present? This is the only module that checks.

``pip install .`` builds some inner loops in C if a compiler is available (``setup.py``). Each has a Python twin that
gives the same results; the pure build uses the twins. A module that has both takes its C extension from ``extension``,
which returns None in the pure build, and chooses once, at import.

Example: ``extension("engine.format.fast.kernel")`` is a module in the native build and None with ``JETOOL_PURE=1``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def extension(name: str) -> Any:
    """An extension module by its full name; None in the pure build."""
    try:
        return import_module(name)
    except ImportError:
        return None


def is_native() -> bool:
    """Whether this is the native build. All extensions are built or none, so one stands for all."""
    return extension("engine.format.fast.kernel") is not None
